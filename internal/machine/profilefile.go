package machine

import (
	"bufio"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

//go:embed profiles/*.json
var profileFiles embed.FS

// mustShip reads a shipped profile.
func mustShip(i ISA) *Profile {
	text, err := profileFiles.ReadFile("profiles/" + i.String() + ".json")
	if err == nil {
		var p *Profile
		if p, err = ParseProfile(text); err == nil {
			return p
		}
	}
	panic("machine: the profile of " + i.String() + ": " + err.Error())
}

// What a profile that is read may be, at most.
const (
	maxProfileBytes = 1 << 20
	maxLevels       = 64
	maxProfileRate  = 1e12 // picoseconds: a second
)

// ParseProfile reads a profile, and checks its numbers. The error says what is wrong with it, and where.
func ParseProfile(text []byte) (*Profile, error) {
	if len(text) > maxProfileBytes {
		return nil, fmt.Errorf("a profile of %d bytes: %d are the most", len(text), maxProfileBytes)
	}
	p := &Profile{}
	if err := json.Unmarshal(text, p, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("no profile of a machine: %w", err)
	}
	return p, p.Check()
}

// Check reports a version that is not read, and the first number that no machine has.
func (p *Profile) Check() error {
	if p.Version != ProfileVersion {
		return fmt.Errorf("version %d: want %d; graphrun calibrate makes a new one", p.Version, ProfileVersion)
	}
	for _, x := range []struct {
		name string
		rate float64
	}{{"step_ps", p.StepPS}, {"chunk_ns", p.ChunkNS}, {"share_ns", p.ShareNS},
		{"wake_ns", p.WakeNS}} {
		if !isRate(x.rate) {
			return fmt.Errorf("%s: %v is no time that a machine takes", x.name, x.rate)
		}
	}
	for a := range accesses {
		c := *p.Memory.of(a)
		if len(c) == 0 || len(c) > maxLevels {
			return fmt.Errorf("memory.%v: %d levels: want 1 to %d", a, len(c), maxLevels)
		}
		for i, l := range c {
			switch {
			case !isRate(l.PS):
				return fmt.Errorf("memory.%v[%d]: ps: %v is no time that a machine takes", a, i, l.PS)
			case !(l.Bytes > 0) || math.IsInf(l.Bytes, 0) || i > 0 && l.Bytes <= c[i-1].Bytes:
				return fmt.Errorf("memory.%v[%d]: bytes: %v: want more than 0 and than the level before", a, i, l.Bytes)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Kernels)) {
		if !isRate(p.Kernels[name]) {
			return fmt.Errorf("kernels: %q: %v is no time that a machine takes", name, p.Kernels[name])
		}
	}
	return nil
}

func isRate(x float64) bool { return x >= 0 && x <= maxProfileRate }

// Complete gives the kernels that a profile does not name the rates of the default, and counts them.
func (p *Profile) Complete() (missing int) {
	usual := UsualProfile()
	for name, rate := range usual.Kernels {
		if _, ok := p.Kernels[name]; !ok {
			if p.Kernels == nil {
				p.Kernels = map[string]float64{}
			}
			p.Kernels[name] = rate
			missing++
		}
	}
	return missing
}

// JSON is the profile as a file has it: the same text for the same profile.
func (p *Profile) JSON() ([]byte, error) {
	text, err := json.Marshal(p, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

// Digest is the sha256 of the canonical JSON (RFC 8785) of the profile, in hexadecimal digits: what tells in a plan
// by which prices it was made. It is empty for a profile with numbers that JSON has no words for.
func (p *Profile) Digest() string {
	if p == nil {
		p = UsualProfile()
	}
	return DigestOfJSON(p)
}

// DigestOfJSON is the sha256 of a value's canonical JSON (RFC 8785), in hexadecimal digits; empty of one that has none.
func DigestOfJSON(v any) string {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return ""
	}
	canonical := jsontext.Value(text)
	if canonical.Canonicalize() != nil {
		return ""
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// Shipped reports whether the profile is that which is shipped for the instruction set in use.
func (p *Profile) Shipped() bool { return p == nil || p.Digest() == UsualProfile().Digest() }

// ReadProfile reads a profile from a file, and completes it.
func ReadProfile(path string) (*Profile, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxProfileBytes {
		return nil, errors.New("no profile of a machine: want a file of at most " + Bytes(maxProfileBytes))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p, err := ParseProfile(text)
	if err != nil {
		return nil, err
	}
	p.Complete()
	return p, nil
}

// ProfilePath is where the profile of this machine is kept in the user's cache folder, by processor, instruction
// set and version.
func ProfilePath() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("profile-%s-%v-%d.json", slug(CPUName()), Instructions(), ProfileVersion)
	return filepath.Join(dir, "graphrun", name), nil
}

// slug makes a name of letters, digits and dashes.
func slug(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	return strings.Join(words, "-")
}

// CPUName is what the processor calls itself, with its model where Linux tells; else the architecture.
func CPUName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	found := map[string]string{}
	for s := bufio.NewScanner(f); s.Scan() && s.Text() != ""; { // the first processor
		if key, value, ok := strings.Cut(s.Text(), ":"); ok {
			found[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	name := found["model name"]
	if name == "" {
		return runtime.GOARCH
	}
	// Virtual machines call several generations by one name.
	return fmt.Sprintf("%s (family %s, model %s)", name, found["cpu family"], found["model"])
}
