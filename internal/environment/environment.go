// Package environment describes the machine and the program of a measurement, so that readers can cite and repeat the
// measurement.
package environment

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
)

// Environment is the machine and the program of a measurement. Properties that cannot be determined are empty.
type Environment struct {
	Version  string    `json:"version" doc:"The version and the revision of graphrun, and the version of Go."`
	Platform string    `json:"platform" doc:"The operating system and the architecture."`
	Code     string    `json:"code" doc:"The instruction set of generated code, or the reason why no code is generated."`
	CPU      string    `json:"cpu" doc:"The processor."`
	Cores    int       `json:"cores" doc:"The number of processors that the process may use."`
	Caches   []string  `json:"caches" doc:"The caches of the first core: level, type and size."`
	Load     string    `json:"load,omitempty" doc:"The load averages of the last 1, 5 and 15 minutes; left out if unknown."`
	Date     time.Time `json:"date" doc:"The time of the description (RFC 3339, UTC)."`
}

// Current describes this machine and this program.
func Current() Environment {
	return Environment{Version: Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Code: Code(),
		CPU: machine.CPUName(), Cores: runtime.NumCPU(), Caches: caches(os.DirFS("/")), Load: Load(),
		Date: time.Now().UTC().Truncate(time.Second)}
}

// Version returns the version of the module, the revision if the build recorded one, and the version of Go.
func Version() string {
	version, settings := "(devel)", map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		if v := info.Main.Version; v != "" {
			version = v
		}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
	}
	commit := "unknown revision"
	if r := settings["vcs.revision"]; r != "" {
		commit = "revision " + r
		if settings["vcs.modified"] == "true" {
			commit += " (modified)"
		}
	}
	return fmt.Sprintf("graphrun %s, %s, %s", version, commit, runtime.Version())
}

// Code describes the machine code in use. If there is none, or it cannot run here, Code states the reason.
func Code() string {
	switch err := jit.Available(); {
	case err == nil && machine.RunError() != nil:
		return fmt.Sprintf("machine code for %s: %v", machine.Describe(), machine.RunError())
	case err != nil:
		return fmt.Sprintf("no machine code: %v", err)
	case machine.HostFeatures().Has(machine.NEON) && !machine.HostFeatures().HasByteDot():
		return fmt.Sprintf("machine code for %s, but not for products of bytes", machine.Describe())
	}
	return "machine code for " + machine.Describe()
}

// Load returns the load averages of the last 1, 5 and 15 minutes, or "" if they are unknown.
func Load() string {
	b, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(b))
	if err != nil || len(fields) < 3 {
		return ""
	}
	return strings.Join(fields[:3], " ")
}

// caches returns the caches of the first core: level, type and size. fsys is the root file system of Linux.
func caches(fsys fs.FS) []string {
	list := []string{}
	dirs, _ := fs.Glob(fsys, "sys/devices/system/cpu/cpu0/cache/index*") // the pattern is valid
	for _, dir := range dirs {
		property := func(name string) string {
			b, _ := fs.ReadFile(fsys, path.Join(dir, name)) // if the file is absent, the property is unknown
			return strings.TrimSpace(string(b))
		}
		if size := property("size"); size != "" {
			list = append(list, fmt.Sprintf("L%s %s %siB", property("level"), strings.ToLower(property("type")), size))
		}
	}
	return list
}
