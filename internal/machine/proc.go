package machine

import (
	"bufio"
	"bytes"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// This file reads the memory limits of a process on Linux: its own limits ([processLimits]) and those of its control
// groups ([groupLimits]).

// fields maps the names in a file with lines "Name: 123 kB" to their numbers, in bytes.
type fields map[string]int

// readMeminfo returns the memory of the machine as the kernel states it.
func readMeminfo(fsys fs.FS) fields { return readFields(fsys, "proc/meminfo") }

// readFields reads the fields of a file whose unit is kB.
func readFields(fsys fs.FS, name string) fields {
	found := fields{}
	eachLine(fsys, name, func(line string) {
		key, value, _ := strings.Cut(line, ":")
		number, unit, _ := strings.Cut(strings.TrimSpace(value), " ")
		if n, err := strconv.Atoi(number); err == nil && unit == "kB" {
			found[key] = n << 10
		}
	})
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
	var status fields
	eachLine(fsys, "proc/self/limits", func(line string) {
		for _, kind := range []struct{ key, usageKey, name string }{
			{"Max address space", "VmSize", "the address space of the process (ulimit -v)"},
			{"Max data size", "VmData", "the data segment of the process (ulimit -d)"},
		} {
			values, ok := strings.CutPrefix(line, kind.key)
			if !ok {
				continue
			}
			soft, _, _ := strings.Cut(strings.TrimSpace(values), " ")
			total, err := strconv.Atoi(soft)
			if err != nil {
				continue // "unlimited"
			}
			if status == nil {
				status = readFields(fsys, "proc/self/status")
			}
			limits = append(limits, Limit{Available: total - status[kind.usageKey], Total: total, Name: kind.name})
		}
	})
	return limits
}

// groupLimits returns the limits of the process's control groups and of their visible ancestors. memory has the fields
// of /proc/meminfo.
func groupLimits(fsys fs.FS, memory fields) []Limit {
	var limits []Limit
	mountOf := memoryMounts(fsys)
	eachLine(fsys, "proc/self/cgroup", func(line string) {
		files, group, ok := parseGroup(line)
		if !ok {
			return
		}
		mounted, ok := mountOf[files.kind]
		if !ok {
			return
		}
		for dir := mounted.groupPath(group); ; dir = path.Dir(dir) { // the group, then its ancestors
			if limit, found := files.limit(fsys, path.Join(mounted.dir, dir), memory); found {
				limit.Name = "the memory of control group " + path.Join("/", dir) + " (" + files.limitFile + ")"
				limits = append(limits, limit)
			}
			if dir == "" || dir == "." { // the root
				return
			}
		}
	})
	return limits
}

// parseGroup returns the files and the path of the group in a line of /proc/self/cgroup. The line has the form
// hierarchy:controllers:path, as in 4:memory:/jobs/7 (version 1) or 0::/jobs/7 (version 2). ok is false if the line
// has another form or the group has no memory controller.
func parseGroup(line string) (files groupFiles, group string, ok bool) {
	fieldsOfLine := strings.SplitN(line, ":", 3)
	if len(fieldsOfLine) != 3 {
		return groupFiles{}, "", false
	}
	controllers, group := fieldsOfLine[1], fieldsOfLine[2]
	if controllers == "" {
		return version2, group, true
	}
	return version1, group, listContains(controllers, "memory")
}

// mount is a mounted control group hierarchy: dir is the mount point, and root the group that is visible there.
type mount struct{ root, dir string }

// groupPath returns the path of a group's folder relative to the mount point. In a container, the root of the mount is
// often a group inside the hierarchy.
func (m mount) groupPath(group string) string {
	relative, ok := strings.CutPrefix(group, strings.TrimSuffix(m.root, "/"))
	isBelowRoot := ok && (relative == "" || relative[0] == '/')
	if !isBelowRoot || strings.Contains(relative, "..") {
		// A container hides the group of the process, so that the process is outside the mounted part. The limit of the
		// root applies.
		return ""
	}
	return strings.Trim(relative, "/")
}

// memoryMounts finds the memory hierarchies: "cgroup2", and "cgroup" with the memory controller.
func memoryMounts(fsys fs.FS) map[string]mount {
	found := map[string]mount{}
	eachLine(fsys, "proc/self/mountinfo", func(line string) {
		// id parent device root dir options tags... - kind source options, as in
		// 31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
		head, tail, ok := strings.Cut(line, " - ")
		mountFields, systemFields := strings.Fields(head), strings.Fields(tail)
		if !ok || len(mountFields) < 5 || len(systemFields) < 1 {
			return
		}
		kind := systemFields[0]
		isVersion1 := kind == "cgroup" && len(systemFields) >= 3 && listContains(systemFields[2], "memory")
		if kind != "cgroup2" && !isVersion1 {
			return
		}
		if _, known := found[kind]; !known {
			found[kind] = mount{root: unescape(mountFields[3]), dir: strings.Trim(unescape(mountFields[4]), "/")}
		}
	})
	return found
}

// unescape decodes white space in names of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// listContains reports whether a list of words, separated by commas, contains a word.
func listContains(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// groupFiles holds the file names of a control group version.
type groupFiles struct {
	kind                 string
	limitFile, usageFile string
	swapLimit, swapUsage string
	swapIncludesMemory   bool   // the swap limit covers memory and swap together
	cachePrefix          string // prefix of the names of cached files in memory.stat, for counts that include subgroups
}

var (
	version1 = groupFiles{kind: "cgroup", limitFile: "memory.limit_in_bytes", usageFile: "memory.usage_in_bytes",
		swapLimit: "memory.memsw.limit_in_bytes", swapUsage: "memory.memsw.usage_in_bytes", swapIncludesMemory: true,
		cachePrefix: "total_"}
	version2 = groupFiles{kind: "cgroup2", limitFile: "memory.max", usageFile: "memory.current",
		swapLimit: "memory.swap.max", swapUsage: "memory.swap.current"}
)

// limit reads the limit of one group, in the folder dir. It returns false if the group has none. Cached files count as
// used, but the kernel can evict them. Swap adds memory.
func (g groupFiles) limit(fsys fs.FS, dir string, memory fields) (Limit, bool) {
	total, ok := readNumber(fsys, path.Join(dir, g.limitFile))
	used, usageKnown := readNumber(fsys, path.Join(dir, g.usageFile))
	// Version 1 represents "no limit" by a number larger than any memory.
	if !ok || !usageKnown || total > maxRequest {
		return Limit{}, false
	}
	cache := g.cachedBytes(fsys, dir)
	availableMemory := total - max(used-cache, 0)
	swap := memory["SwapFree"]
	if swapLimit, ok := readNumber(fsys, path.Join(dir, g.swapLimit)); ok && swapLimit <= maxRequest {
		usage, _ := readNumber(fsys, path.Join(dir, g.swapUsage))
		freeSwap := swapLimit - usage
		if g.swapIncludesMemory { // the memory that is left is no swap
			freeSwap = swapLimit - max(usage-cache, 0) - availableMemory
		}
		swap = min(swap, max(freeSwap, 0))
	}
	return Limit{Available: availableMemory + swap, Total: total}, true
}

// cachedBytes returns the size of the cached files of a group.
func (g groupFiles) cachedBytes(fsys fs.FS, dir string) int {
	cache := 0
	eachLine(fsys, path.Join(dir, "memory.stat"), func(line string) {
		key, value, _ := strings.Cut(line, " ")
		if key == g.cachePrefix+"inactive_file" || key == g.cachePrefix+"active_file" {
			n, _ := strconv.Atoi(value)
			cache += n
		}
	})
	return cache
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

// eachLine calls visit with every line of a file. It does not call visit for an unreadable file.
func eachLine(fsys fs.FS, name string, visit func(string)) {
	content, err := fs.ReadFile(fsys, name)
	if err != nil {
		return
	}
	for scanner := bufio.NewScanner(bytes.NewReader(content)); scanner.Scan(); {
		visit(scanner.Text())
	}
}
