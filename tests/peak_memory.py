"""Code for a subprocess of a test that says how much memory it took."""

PEAK = """
def peak() -> int:  # KiB
    # `ru_maxrss` would start from the memory of the process that started this one.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
"""
