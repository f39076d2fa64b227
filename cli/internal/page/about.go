package page

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/internal/environment"
	"github.com/graphrun/graphrun/report"
)

// About returns the facts that a citation of a measurement needs. They are the command line, the digests of the files
// at paths, the version of graphrun, the machine and, if profile is not nil, the cost profile. It fails if a file
// cannot be read.
func About(line string, paths []string, profile *report.Profile) ([]Fact, error) {
	env := environment.Current()
	list := []Fact{{"Command", line}}
	for _, path := range paths {
		digest, err := fileDigest(path)
		if err != nil {
			return nil, err
		}
		list = append(list, Fact{"File " + filepath.Base(path), "sha256 " + digest})
	}
	if profile != nil {
		list = append(list, Fact{"Cost profile", profileText(profile)})
	}
	list = append(list, Fact{"Date", env.Date.Format(time.RFC3339)}, Fact{"Program", env.Version},
		Fact{"Platform", env.Platform + ", " + env.Code}, // Code names the instruction set of generated code
		Fact{"Processor", fmt.Sprintf("%s, %s", env.CPU, format.Count(env.Cores, "core"))})
	if len(env.Caches) > 0 {
		list = append(list, Fact{"Caches", strings.Join(env.Caches, ", ")})
	}
	if env.Load != "" {
		list = append(list, Fact{"Load averages at the end", env.Load + " (1, 5, 15 minutes)"})
	}
	return list, nil
}

// profileText describes a cost profile by its machine and digest.
func profileText(profile *report.Profile) string {
	if profile.Default {
		return fmt.Sprintf("default prices of %s, sha256 %s", profile.CPU, profile.Digest)
	}
	return fmt.Sprintf("measured on %s at %s, sha256 %s", profile.CPU, profile.Measured, profile.Digest)
}

// fileDigest returns the sha256 of a file in hexadecimal digits.
func fileDigest(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}
