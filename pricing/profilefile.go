package pricing

import (
	"embed"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/sorted"
)

//go:embed profiles/*.json
var profileFiles embed.FS

// shippedProfile reads the shipped profile of a set of features by its name.
func shippedProfile(name string) *Profile {
	text, err := profileFiles.ReadFile("profiles/" + name + ".json")
	var p *Profile
	if err == nil {
		p, err = ParseProfile(text)
	}
	if err != nil {
		panic("pricing: the profile of " + name + ": " + err.Error())
	}
	return p
}

// Limits of a profile file, far above the numbers that calibration writes.
const (
	maxProfileBytes = 1 << 20
	maxLevels       = 64   // levels of a curve
	maxProfileRate  = 1e12 // picoseconds per byte or other unit of work: one second
)

// ReadProfile reads a profile from a file, and completes it.
func ReadProfile(path string) (*Profile, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxProfileBytes {
		return nil, errors.New("not a machine profile: want a file of at most " + machine.Bytes(maxProfileBytes))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	profile, err := ParseProfile(text)
	if err != nil {
		return nil, err
	}
	profile.Complete()
	return profile, nil
}

// ParseProfile decodes and checks a profile. An error names the key and the mistake in its value.
func ParseProfile(text []byte) (*Profile, error) {
	if len(text) > maxProfileBytes {
		return nil, fmt.Errorf("the profile has %d bytes: at most %d are supported", len(text), maxProfileBytes)
	}
	p := &Profile{}
	if err := json.Unmarshal(text, p, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("not a machine profile: %w", withoutGoTypes(err))
	}
	return p, p.Check()
}

// withoutGoTypes rewords errors of package json that name a Go type.
func withoutGoTypes(err error) error {
	var syntax *jsontext.SyntacticError
	var mismatch *json.SemanticError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("invalid JSON at byte %d: %w", syntax.ByteOffset, syntax.Err)
	case !errors.As(err, &mismatch):
		return err
	case errors.Is(err, json.ErrUnknownName):
		return fmt.Errorf("unknown key %s", mismatch.JSONPointer)
	case mismatch.JSONPointer == "":
		return errors.New("want an object")
	}
	return fmt.Errorf("%s: the value has the wrong type", mismatch.JSONPointer)
}

// Check returns an error for a profile of another version, and for numbers that no machine has.
func (p *Profile) Check() error {
	if p.Version != ProfileVersion {
		return fmt.Errorf("version %d: want %d; graphrun calibrate makes a new one", p.Version, ProfileVersion)
	}
	for _, field := range []struct {
		name string
		rate float64
	}{{"step_ps", p.StepPS}, {"chunk_ns", p.ChunkNS}, {"share_ns", p.ShareNS},
		{"wake_ns", p.WakeNS}} {
		if !isRate(field.rate) {
			return fmt.Errorf("%s: the cost is %v: want 0 to %g", field.name, field.rate, maxProfileRate)
		}
	}
	for access := range numAccesses {
		if err := p.checkCurve(access); err != nil {
			return err
		}
	}
	for _, name := range sorted.Keys(p.Kernels) {
		if !isRate(p.Kernels[name]) {
			return fmt.Errorf("kernels: %q: the cost is %v: want 0 to %g", name, p.Kernels[name], maxProfileRate)
		}
	}
	for _, name := range sorted.Keys(p.Devices) {
		rates := p.Devices[name]
		if err := rates.check(); err != nil {
			return fmt.Errorf("devices: %q: %w", name, err)
		}
	}
	return checkPrices(p.Prices)
}

// checkCurve checks the curve of a kind of access to memory.
func (p *Profile) checkCurve(access Access) error {
	curve := *p.Memory.curve(access)
	if len(curve) == 0 || len(curve) > maxLevels {
		return fmt.Errorf("memory.%v: %d levels: want 1 to %d", access, len(curve), maxLevels)
	}
	previousBytes := 0.0
	for i, level := range curve {
		if !isRate(level.PS) {
			return fmt.Errorf("memory.%v[%d]: ps: the cost is %v: want 0 to %g", access, i, level.PS, maxProfileRate)
		}
		if !(level.Bytes > previousBytes) || math.IsInf(level.Bytes, 0) {
			return fmt.Errorf("memory.%v[%d]: bytes: %v: want more than 0 and than the level before", access, i, level.Bytes)
		}
		previousBytes = level.Bytes
	}
	return nil
}

// isRate reports whether a number can be a rate. NaN cannot.
func isRate(x float64) bool { return x >= 0 && x <= maxProfileRate }

// Complete adds the default rates of kernels that the profile lacks, and returns their number.
func (p *Profile) Complete() (missing int) {
	defaults := SharedDefaultProfile()
	for name, rate := range defaults.Kernels {
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

// JSON returns the profile in the form of a file. Equal profiles give equal text.
func (p *Profile) JSON() ([]byte, error) {
	text, err := json.Marshal(p, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

// Digest returns the sha256 of the profile's canonical JSON (RFC 8785) in hexadecimal. It identifies the profile with
// which a plan was made. It is empty for a profile with numbers that JSON cannot represent.
func (p *Profile) Digest() string {
	if p == nil || p == SharedDefaultProfile() {
		return shippedDigest()
	}
	return machine.DigestOfJSON(p)
}

// shippedDigest returns the digest of the shipped profile for the instruction set in use.
var shippedDigest = sync.OnceValue(func() string { return machine.DigestOfJSON(SharedDefaultProfile()) })

// Shipped reports whether the profile equals the shipped profile for the instruction set in use. It returns true for a
// nil profile.
func (p *Profile) Shipped() bool { return p == nil || p.Digest() == shippedDigest() }

// ProfilePath returns the path of this machine's profile in the user's cache folder. The file name has the processor,
// the instruction set and ProfileVersion.
func ProfilePath() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("profile-%s-%v-%d.json", slug(machine.CPUName()), machine.HostFeatures().Name(), ProfileVersion)
	return filepath.Join(dir, "graphrun", name), nil
}

// slug reduces a text to letters, digits and dashes.
func slug(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	return strings.Join(words, "-")
}
