"""The tool that goes through NVIDIA's sources finds what the catalog does not know."""

import kernel_lines
import pytest
import yaml

NV = "kernel-open/nvidia/nv-pci.c"
KNOWN = yaml.safe_load((kernel_lines.CATALOG / "kernel_lines.yml").read_text())
XIDS = yaml.safe_load((kernel_lines.CATALOG / "xids.yml").read_text())


def tree(path, text, file=NV):
    place = path / file
    place.parent.mkdir(parents=True)
    place.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('nv_printf(NV_DBG_ERRORS, "NVRM: FATAL: Failed to re-allocate BAR1.\\n");', []),
        ('nv_printf(NV_DBG_ERRORS,\n    "NVRM: Ignoring probe for VF %04x:%02x:%02x.%x ",\n    1);', []),
        ('nv_printf(NV_DBG_ERRORS,\n    "NVRM: the GPU "\n    "is on fire\\n");', [(NV, "NVRM: the GPU is on fire")]),
        ('nv_printf(NV_DBG_INFO, "NVRM: the GPU is on fire\\n");', []),
    ],
)
def test_a_line_that_no_record_knows_is_left(tmp_path, text, left):
    assert kernel_lines.sort(tree(tmp_path, text), KNOWN)[1] == left


def test_a_number_that_the_catalog_does_not_have_is_left(tmp_path):
    header = "#define ROBUST_CHANNEL_GR_EXCEPTION (13)\n#define PAPER_JAM (999)\n"
    assert kernel_lines.unlisted(tree(tmp_path, header, "src/nverror.h"), XIDS) == [999]


def test_a_version_that_is_whole_leaves_nothing(tmp_path, capsys):
    assert (
        kernel_lines.main(tree(tmp_path, 'nv_printf(NV_DBG_ERRORS, "NVRM: failed to wait for bar firewall to lower");'))
        == 0
    )
    assert "read as board_boot" in capsys.readouterr().out
