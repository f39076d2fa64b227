//go:build !386 && !arm

// The systems of these tests have more bytes of memory than an int of 32 bits can count.

package machine

import (
	"strings"
	"testing"
	"testing/fstest"
)

const gib = 1 << 30

// system returns the files of a machine with 16 GiB of memory, 8 GiB of them available, and 1 GiB of swap, without
// other limits. more adds or replaces files.
func system(more map[string]string) fstest.MapFS {
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"proc/meminfo": "MemTotal:       16777216 kB\nMemFree:  10 kB\nMemAvailable:    8388608 kB\nSwapTotal: " +
			"1048576 kB\nSwapFree: 1048576 kB\nHugePages_Total:       0\n",
		"proc/self/limits": "Limit                     Soft Limit           Hard Limit           Units     \nMax data " +
			"size             unlimited            unlimited            bytes     \nMax address space         unlimited       " +
			"     unlimited            bytes     \n",
		"proc/self/status":    "Name:\tx\nVmSize:\t 1048576 kB\nVmData:\t  262144 kB\n",
		"proc/self/cgroup":    "0::/\n",
		"proc/self/mountinfo": "23 1 0:20 / / rw - ext4 /dev/sda rw\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for name, text := range more {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

const (
	mount2 = "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw\n"
	mount1 = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
)

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		total int
		left  int // before the reserve of at most 2% is subtracted
		says  string
	}{
		{"the machine", nil, 17 * gib, 9 * gib, "this machine"},
		{"an old kernel", map[string]string{"proc/meminfo": "MemTotal: 4194304 kB\nMemFree: 1048576 kB\nCached: " +
			"1048576 kB\n"},
			4 * gib, 2 * gib, "this machine"},
		{"address space", map[string]string{"proc/self/limits": "Max address space         6442450944           unlimited  " +
			"          bytes     \n"},
			6 * gib, 5*gib - 1<<27, "ulimit -v"},
		{"data", map[string]string{"proc/self/limits": "Max data size         2147483648           unlimited            " +
			"bytes     \n"},
			2 * gib, 2*gib - 1<<28 - 1<<27, "ulimit -d"},
		{"version 2", map[string]string{"proc/self/mountinfo": mount2, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/b/memory.current": "1073741824\n",
			"sys/fs/cgroup/a/memory.max": "4294967296\n", "sys/fs/cgroup/a/memory.current": "3221225472\n",
			"sys/fs/cgroup/a/memory.swap.max": "0\n", "sys/fs/cgroup/a/memory.swap.current": "0\n",
			"sys/fs/cgroup/a/memory.stat": "anon 5\nactive_file 536870912\ninactive_file 536870912\n"},
			4 * gib, 2 * gib, "control group /a (memory.max)"},
		{"version 2 with swap", map[string]string{"proc/self/mountinfo": mount2, "proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/memory.max": "4294967296\n", "sys/fs/cgroup/a/memory.current": "3221225472\n",
			"sys/fs/cgroup/a/memory.swap.max": "536870912\n", "sys/fs/cgroup/a/memory.swap.current": "0\n"},
			4 * gib, gib + gib/2, "control group /a"},
		{"a container with its own view", map[string]string{"proc/self/mountinfo": mount2, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "1073741824\n", "sys/fs/cgroup/memory.current": "0\n",
			"sys/fs/cgroup/memory.swap.max": "0\n"},
			gib, gib, "control group / "},
		{"a container without", map[string]string{
			"proc/self/mountinfo": "35 31 0:32 /docker/f00 /sys/fs/cgroup/memory ro - cgroup cgroup " +
				"rw,memory\n",
			"proc/self/cgroup": "9:cpu:/docker/f00\n4:memory,x:/docker/f00/in\n0::/\n",
			"sys/fs/cgroup/memory/in/memory.limit_in_bytes":    "9223372036854771712\n",
			"sys/fs/cgroup/memory/in/memory.usage_in_bytes":    "5\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":       "2147483648\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes":       "1073741824\n",
			"sys/fs/cgroup/memory/memory.memsw.limit_in_bytes": "2147483648\n",
			"sys/fs/cgroup/memory/memory.memsw.usage_in_bytes": "1073741824\n",
			"sys/fs/cgroup/memory/memory.stat":                 "inactive_file 1\ntotal_inactive_file 536870912\n"},
			2 * gib, gib + gib/2, "memory.limit_in_bytes"},
		{"another namespace", map[string]string{"proc/self/mountinfo": mount1, "proc/self/cgroup": "4:memory:/../../x\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "0\n",
			"sys/fs/cgroup/memory/memory.memsw.limit_in_bytes": "1073741824\n",
			"sys/fs/cgroup/memory/memory.memsw.usage_in_bytes": "0\n"},
			gib, gib, "control group / "},
		{"over the limit", map[string]string{"proc/self/limits": "Max address space         1073741824           " +
			"1073741824            bytes     \n"},
			gib, 0, "ulimit -v"},
	} {
		l := tightest(readLimits(system(c.files), idleHeap{}, false))
		if l.Total != c.total || l.Available > c.left || l.Available < c.left-c.left/50 || !strings.Contains(l.Name, c.says) {
			t.Errorf("%s: %+v, want %d of %d, %s", c.name, l, c.left, c.total, c.says)
		}
	}
}

func TestIdleHeapCounts(t *testing.T) {
	bounded := system(map[string]string{"proc/self/limits": "Max address space         2147483648           unlimited   " +
		"         bytes     \n"})
	heap := idleHeap{free: 100, released: 1000}
	without, with := tightest(readLimits(bounded, idleHeap{}, false)), tightest(readLimits(bounded, heap, false))
	if with.Available != without.Available+1100 {
		t.Errorf("address space: %d without an idle heap, %d with it", without.Available, with.Available)
	}
	without, with = tightest(readLimits(system(nil), idleHeap{}, false)), tightest(readLimits(system(nil), heap, false))
	if with.Available != without.Available+100 {
		t.Errorf("memory: %d without an idle heap, %d with it", without.Available, with.Available)
	}
}

func TestNothingKnown(t *testing.T) {
	if l := tightest(readLimits(fstest.MapFS{}, idleHeap{}, false)); l != unknownLimit {
		t.Errorf("%+v", l)
	}
	broken := system(map[string]string{"proc/meminfo": "MemTotal\nMemAvailable: x kB\n",
		"proc/self/cgroup":    ":::\nx\n4:memory\n",
		"proc/self/mountinfo": "a - cgroup2\n - \n1 2 3 / - cgroup cgroup rw,memory\n",
		"proc/self/limits":    "Max address space\n"})
	if l := tightest(readLimits(broken, idleHeap{}, false)); l != unknownLimit {
		t.Errorf("broken files: %+v", l)
	}
}

func TestFits(t *testing.T) {
	for _, c := range []struct {
		bytes int
		want  bool
	}{{0, true}, {1 << 20, true}, {1 << 20, true}, {maxRequest + 1, false}} {
		if l, ok := Fits(c.bytes); ok != c.want {
			t.Errorf("%d bytes: %v, %v", c.bytes, ok, l)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int]string{0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 1024: "1 KiB", 3 << 29: "1.5 GiB",
		1 << 62: "4 EiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// A single allocation needs adjacent addresses: it cannot join the idle heap and new memory.
func TestBlocks(t *testing.T) {
	bounded := system(map[string]string{"proc/self/limits": "Max address space         4294967296           unlimited  " +
		"          bytes     \n"})
	const fresh = 3*gib - 1<<27
	for _, c := range []struct {
		heap        idleHeap
		all, single int
	}{
		{idleHeap{}, fresh, fresh},
		{idleHeap{free: gib, released: gib}, fresh + 2*gib, fresh},
		{idleHeap{released: 3 * gib}, fresh + 3*gib, 3 * gib},
		{idleHeap{released: 4 * gib, used: gib}, fresh + 4*gib, 3 * gib}, // objects divide the heap
		{idleHeap{released: 8 * gib, used: 7 * gib}, fresh + 8*gib, 4 * gib},
	} {
		for block, want := range map[bool]int{false: c.all, true: c.single} {
			for _, l := range readLimits(bounded, c.heap, block) {
				if strings.Contains(l.Name, "ulimit -v") && l.Available != want {
					t.Errorf("%+v, block %v: %d bytes are left, want %d", c.heap, block, l.Available, want)
				}
			}
		}
	}
}
