package environment

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

// Build returns a text that identifies this program: two programs with equal texts have the same code. The text lists
// the versions and the settings of the build, if they determine the code. Otherwise it is a digest of the executable.
// If the executable cannot be read, each run of the program has a different text.
var Build = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if ok && determinesCode(info) {
		return info.String()
	}
	digest, err := digestOfExecutable()
	if err != nil {
		return fmt.Sprint("unknown program ", os.Getpid(), time.Now().UnixNano())
	}
	return digest
})

// determinesCode reports whether the build information determines the code: each dependency must have a version with a
// checksum, and the main module must have such a version or be built from an unmodified revision.
func determinesCode(info *debug.BuildInfo) bool {
	settings := map[string]string{}
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	if info.Main.Sum == "" && (settings["vcs.revision"] == "" || settings["vcs.modified"] != "false") {
		return false
	}
	for _, module := range info.Deps {
		for module.Replace != nil {
			module = module.Replace
		}
		if module.Sum == "" {
			return false
		}
	}
	return true
}

// digestOfExecutable returns a text with the sha256 of the executable file.
func digestOfExecutable() (string, error) {
	file, err := os.Open("/proc/self/exe") // opens the running executable, even if its file was replaced
	if err != nil {
		path, err := os.Executable()
		if err != nil {
			return "", err
		}
		if file, err = os.Open(path); err != nil {
			return "", err
		}
	}
	defer file.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return "", err
	}
	return fmt.Sprintf("executable %x", digest.Sum(nil)), nil
}
