"""Threads and connections are no more than the CPUs that the process may use."""

import pytest

from gemmd._cpus import least_cpus, usable_cpus


@pytest.fixture
def machine(tmp_path):
    """Writes a file of a machine's."""

    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("max 100000\n", 8),
        ("100000 100000\n", 1),
        ("1000 100000\n", 1),
        ("150000 100000\n", 2),
        ("9000000 100000\n", 8),
        ("0 100000\n", 8),
        ("100000 0\n", 8),
        ("100000\n", 8),
        ("", 8),
        ("nonsense", 8),
    ],
)
def test_a_quota_is_rounded_up(machine, text, cpus):
    machine("proc/self/cgroup", "0::/\n")
    assert least_cpus(8, machine("sys/fs/cgroup/cpu.max", text)) == cpus


def test_every_group_around_the_process_counts(machine):
    machine("proc/self/cgroup", "0::/a/b\n")
    machine("sys/fs/cgroup/a/b/cpu.max", "max 100000\n")
    root = machine("sys/fs/cgroup/a/cpu.max", "200000 100000\n")
    assert least_cpus(16, root) == 2
    assert least_cpus(1, root) == 1


def test_groups_of_the_first_version_count(machine):
    machine("proc/self/cgroup", "9:memory:/m\n3:cpu,cpuacct:/docker/0123\n")
    machine("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert least_cpus(16, machine("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n")) == 3
    assert least_cpus(16, machine("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")) == 16


def test_without_groups_the_affinity_counts(tmp_path):
    assert least_cpus(5, tmp_path) == 5
    assert usable_cpus() >= 1
