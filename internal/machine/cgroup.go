package machine

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// This file reads the memory limits of a process's control groups. A control group limits the memory of its processes
// and of its subgroups together. For example, in version 2, the process's group may be /jobs/7, and the hierarchy of
// groups may be mounted at /sys/fs/cgroup. The limits are then in /sys/fs/cgroup/jobs/7/memory.max,
// /sys/fs/cgroup/jobs/memory.max and /sys/fs/cgroup/memory.max.

// groupFiles holds the file names of a control group version.
type groupFiles struct {
	kind                 string // type of the file system, in mountinfo
	limitFile, usageFile string
	swapLimit, swapUsage string // the files with the limit and the usage of swap
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

// groupLimits returns the limits of the process's control groups and of their visible ancestors. memory has the fields
// of /proc/meminfo.
func groupLimits(fsys fs.FS, memory fields) []Limit {
	var limits []Limit
	mountOf := memoryMounts(fsys)
	for line := range lines(fsys, "proc/self/cgroup") {
		files, group, hasMemory := parseGroup(line)
		mounted, isMounted := mountOf[files.kind]
		if !hasMemory || !isMounted {
			continue
		}
		for dir := mounted.groupPath(group); ; dir = path.Dir(dir) { // the group, then its ancestors
			if limit, found := files.limit(fsys, path.Join(mounted.dir, dir), memory); found {
				limit.Name = "the memory of control group " + path.Join("/", dir) + " (" + files.limitFile + ")"
				limits = append(limits, limit)
			}
			if dir == "" || dir == "." { // the root
				break
			}
		}
	}
	return limits
}

// parseGroup returns the files and the path of the group in a line of /proc/self/cgroup. The line has the form
// hierarchy:controllers:path, as in 4:memory:/jobs/7 (version 1) or 0::/jobs/7 (version 2). ok is false if the line
// has another form or the group has no memory controller.
func parseGroup(line string) (files groupFiles, group string, ok bool) {
	_, rest, _ := strings.Cut(line, ":")
	controllers, group, ok := strings.Cut(rest, ":")
	if controllers == "" {
		return version2, group, ok
	}
	return version1, group, ok && hasMemoryController(controllers)
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
	for line := range lines(fsys, "proc/self/mountinfo") {
		// id parent device root dir options tags... - kind source options, as in
		// 31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
		head, tail, ok := strings.Cut(line, " - ")
		mountFields, systemFields := strings.Fields(head), strings.Fields(tail)
		if !ok || len(mountFields) < 5 || len(systemFields) < 1 {
			continue
		}
		kind := systemFields[0]
		isVersion1 := kind == "cgroup" && len(systemFields) >= 3 && hasMemoryController(systemFields[2])
		if _, known := found[kind]; !known && (isVersion1 || kind == "cgroup2") {
			found[kind] = mount{root: unescape(mountFields[3]), dir: strings.Trim(unescape(mountFields[4]), "/")}
		}
	}
	return found
}

// unescape decodes white space in names of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// hasMemoryController reports whether a list of words, separated by commas, contains "memory".
func hasMemoryController(list string) bool {
	return slices.Contains(strings.Split(list, ","), "memory")
}

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
	for line := range lines(fsys, path.Join(dir, "memory.stat")) {
		key, value, _ := strings.Cut(line, " ")
		if key == g.cachePrefix+"inactive_file" || key == g.cachePrefix+"active_file" {
			n, _ := strconv.Atoi(value)
			cache += n
		}
	}
	return cache
}
