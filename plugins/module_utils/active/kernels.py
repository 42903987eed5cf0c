# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernels that the tests run on GPUs, as PTX: the driver itself compiles it, so no toolkit is needed.

A low target and an old PTX version let every driver since 384 compile them for every GPU since Maxwell. They assemble
with ptxas 12.9 for sm_50 to sm_121 and with ptxas 13.5, which takes nothing older, for sm_75 to sm_121.
"""

from __future__ import annotations

THREADS = 256  # per block
PER_THREAD = 4  # elements, moved as one access of 16 bytes

PTX = rb"""
.version 6.0
.target sm_50
.address_size 64

// out[i] = a[i] + s * b[i] for i < n, floats; n is a multiple of 4
.visible .entry triad(.param .u64 p_out, .param .u64 p_a, .param .u64 p_b, .param .f32 p_s, .param .u32 p_n)
{
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .b64 %d<8>;
    .reg .f32 %a<4>, %b<4>, %s;

    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r0, %r1, %r2;
    shl.b32 %r4, %r3, 2;
    ld.param.u32 %r5, [p_n];
    setp.ge.u32 %p, %r4, %r5;
    @%p bra END;

    ld.param.u64 %d0, [p_out];
    ld.param.u64 %d1, [p_a];
    ld.param.u64 %d2, [p_b];
    ld.param.f32 %s, [p_s];
    cvta.to.global.u64 %d0, %d0;
    cvta.to.global.u64 %d1, %d1;
    cvta.to.global.u64 %d2, %d2;
    mul.wide.u32 %d3, %r4, 4;
    add.s64 %d4, %d0, %d3;
    add.s64 %d5, %d1, %d3;
    add.s64 %d6, %d2, %d3;
    ld.global.v4.f32 {%a0, %a1, %a2, %a3}, [%d5];
    ld.global.v4.f32 {%b0, %b1, %b2, %b3}, [%d6];
    fma.rn.f32 %a0, %s, %b0, %a0;
    fma.rn.f32 %a1, %s, %b1, %a1;
    fma.rn.f32 %a2, %s, %b2, %a2;
    fma.rn.f32 %a3, %s, %b3, %a3;
    st.global.v4.f32 [%d4], {%a0, %a1, %a2, %a3};
END:
    ret;
}

// *count += how many of the n words in data differ from value; n is a multiple of 4
.visible .entry differing(.param .u64 p_count, .param .u64 p_data, .param .u32 p_value, .param .u32 p_n)
{
    .reg .pred %p, %q;
    .reg .b32 %r<6>, %w<4>, %value, %found, %one;
    .reg .b64 %d<4>;

    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r0, %r1, %r2;
    shl.b32 %r4, %r3, 2;
    ld.param.u32 %r5, [p_n];
    setp.ge.u32 %p, %r4, %r5;
    @%p bra END;

    ld.param.u64 %d0, [p_count];
    ld.param.u64 %d1, [p_data];
    ld.param.u32 %value, [p_value];
    cvta.to.global.u64 %d0, %d0;
    cvta.to.global.u64 %d1, %d1;
    mul.wide.u32 %d2, %r4, 4;
    add.s64 %d3, %d1, %d2;
    ld.global.v4.u32 {%w0, %w1, %w2, %w3}, [%d3];
    mov.u32 %found, 0;
    setp.ne.u32 %q, %w0, %value;
    selp.u32 %one, 1, 0, %q;
    add.u32 %found, %found, %one;
    setp.ne.u32 %q, %w1, %value;
    selp.u32 %one, 1, 0, %q;
    add.u32 %found, %found, %one;
    setp.ne.u32 %q, %w2, %value;
    selp.u32 %one, 1, 0, %q;
    add.u32 %found, %found, %one;
    setp.ne.u32 %q, %w3, %value;
    selp.u32 %one, 1, 0, %q;
    add.u32 %found, %found, %one;
    setp.eq.u32 %q, %found, 0;
    @%q bra END;
    red.global.add.u32 [%d0], %found;
END:
    ret;
}
"""
