package machine

import (
	"bytes"
	"io/fs"
	"iter"
	"strconv"
	"strings"
	"sync"
)

// This file reads files of /proc: the memory of the machine ([readMeminfo]) and the limits of the process itself
// ([processLimits]). cgroup.go reads the limits of its control groups.

// fields maps the names in a file with lines "Name: 123 kB" to their numbers, in bytes.
type fields map[string]int

// readMeminfo returns the memory of the machine as the kernel states it.
func readMeminfo(fsys fs.FS) fields { return readFields(fsys, "proc/meminfo") }

// readFields reads the fields of a file whose unit is kB.
func readFields(fsys fs.FS, name string) fields {
	found := fields{}
	for line := range lines(fsys, name) {
		key, value, _ := strings.Cut(line, ":")
		number, unit, _ := strings.Cut(strings.TrimSpace(value), " ")
		if n, err := strconv.Atoi(number); err == nil && unit == "kB" {
			found[key] = n << 10
		}
	}
	return found
}

// available returns the memory that the kernel can give without swapping. Before Linux 3.14 it is an estimate.
func (f fields) available() int {
	if n, ok := f["MemAvailable"]; ok {
		return n
	}
	return f["MemFree"] + f["Cached"]
}

// processLimits returns the limits of the process itself (setrlimit). They count address space, used or not.
func processLimits(fsys fs.FS) []Limit {
	var limits []Limit
	// Most processes have no such limit, so the usage is read only if there is one.
	usage := sync.OnceValue(func() fields { return readFields(fsys, "proc/self/status") })
	for line := range lines(fsys, "proc/self/limits") {
		for _, kind := range []struct{ key, usageKey, name string }{
			{"Max address space", "VmSize", "the address space of the process (ulimit -v)"},
			{"Max data size", "VmData", "the data segment of the process (ulimit -d)"},
		} {
			values, isKind := strings.CutPrefix(line, kind.key)
			soft, _, _ := strings.Cut(strings.TrimSpace(values), " ")   // the soft limit precedes the hard limit
			if total, err := strconv.Atoi(soft); isKind && err == nil { // not "unlimited"
				limits = append(limits, Limit{Available: total - usage()[kind.usageKey], Total: total, Name: kind.name})
			}
		}
	}
	return limits
}

// readNumber reads a file with one number. It returns false for "max", which means no limit.
func readNumber(fsys fs.FS, name string) (int, bool) {
	content, err := fs.ReadFile(fsys, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(content)))
	return n, err == nil
}

// lines returns the lines of a file. An unreadable file has none.
func lines(fsys fs.FS, name string) iter.Seq[string] {
	content, err := fs.ReadFile(fsys, name)
	if err != nil {
		return func(func(string) bool) {}
	}
	return strings.SplitSeq(string(content), "\n")
}
