package environment

import (
	"runtime/debug"
	"sync"
)

// modulePath is the path of the module of graphrun.
const modulePath = "github.com/graphrun/graphrun"

// Release returns the version of graphrun in this program, which may be another program that imports it. Without a
// version, it is the revision of the source or, if that is unknown, "(devel)".
var Release = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(devel)"
	}
	if info.Main.Path != modulePath {
		for _, module := range info.Deps {
			if module.Path == modulePath {
				if module.Replace != nil {
					module = module.Replace
				}
				return moduleVersion(module)
			}
		}
	}
	version := moduleVersion(&info.Main)
	if version != "(devel)" {
		return version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			version = setting.Value
		}
	}
	return version
})

// moduleVersion returns the version of a module; "(devel)" if it has none.
func moduleVersion(module *debug.Module) string {
	if module.Version == "" {
		return "(devel)"
	}
	return module.Version
}
