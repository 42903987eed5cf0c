/* What modinfo reads off NVIDIA's kernel module, and nothing else: a simulated node then boots with that driver.
 *
 *     cc -c -DVERSION='"580.178.04"' -o nvidia.ko nvidia_module.c
 */
#define MODINFO(name, value) static const char name[] __attribute__((section(".modinfo"), used)) = #name "=" value

MODINFO(version, VERSION);
MODINFO(license, "Dual MIT/GPL");
MODINFO(description, "Stand-in for NVIDIA's kernel module, which cannot be loaded");
