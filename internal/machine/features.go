package machine

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
)

// Features is a set of capabilities of a processor: the instructions that generated code and assembly may use. Code
// generators get a set as an argument and ask for the members that they need ([Features.Has]). Sets are not ordered,
// because members belong to different architectures.
type Features uint16

// The empty set, for Go code only, and its possible members.
const (
	Portable Features = 0

	// Vector256: 256-bit vectors of integers and floats, with BMI2 (AVX2).
	Vector256 Features = 1 << (iota - 1)
	// FMA: fused multiply-add.
	FMA
	// Float16: conversions between float16 and float32 (F16C).
	Float16
	// Vector512: 512-bit vectors, 32 registers and masks (AVX-512 F, BW, DQ, VL).
	Vector512
	// DotBytes256 and DotBytes512: dot products of four bytes with vectors of 256 bits (AVX_VNNI) and of 512 bits
	// (AVX512_VNNI).
	DotBytes256
	DotBytes512
	// MatrixUnit: tile registers and products of byte matrices (AMX).
	MatrixUnit
	// NEON: 128-bit vectors of integers and floats with fused multiply-add, of arm64.
	NEON
	// Float16Arithmetic: arithmetic with float16 (FEAT_FP16).
	Float16Arithmetic
	// Float16Products: products of float16 that are added to float32 (FEAT_FHM).
	Float16Products
	// DotBytes128: dot products of four bytes with vectors of 128 bits (FEAT_DotProd).
	DotBytes128
	// MatrixBytes: products of byte matrices, and dot products of bytes of unlike signs (FEAT_I8MM).
	MatrixBytes
	// BFloat16: products of bfloat16 that are added to float32 (FEAT_BF16).
	BFloat16
)

// Sets for which code can be generated.
const (
	AVX2   = Vector256 | FMA | Float16 // x86-64-v3
	AVX512 = AVX2 | Vector512          // x86-64-v4
)

// namedFeature is an additional feature: see namedFeatures.
type namedFeature struct {
	feature, requires Features
	name              string
}

// namedFeatures are the features that [Features.String] adds to the name of a set. A set with `feature` must also have
// the features in `requires`.
var namedFeatures = []namedFeature{
	{DotBytes256, AVX2, "dotbytes256"}, {DotBytes512, AVX512, "dotbytes512"},
	{MatrixUnit, AVX512, "matrix"},
	{Float16Arithmetic, NEON, "float16"}, {Float16Products, NEON | Float16Arithmetic, "fhm"},
	{DotBytes128, NEON, "dotprod"}, {MatrixBytes, NEON | DotBytes128, "i8mm"}, {BFloat16, NEON, "bf16"},
}

// Has reports whether the set has all given features.
func (f Features) Has(features Features) bool { return f&features == features }

// Vectors256 returns the set without the features of wider vectors.
func (f Features) Vectors256() Features { return f &^ (Vector512 | DotBytes512 | MatrixUnit) }

// HasByteDot reports whether the set has a dot product of bytes for its widest vectors.
func (f Features) HasByteDot() bool {
	switch {
	case f.Has(NEON):
		return f.Has(DotBytes128)
	case f.Has(Vector512):
		return f.Has(DotBytes512)
	}
	return f.Has(DotBytes256)
}

// Name returns the name of the set's vector instructions: avx512, avx2, arm64 or portable. Profiles are named after it.
func (f Features) Name() string {
	switch {
	case f.Has(AVX512):
		return "avx512"
	case f.Has(AVX2):
		return "avx2"
	case f.Has(NEON):
		return "arm64"
	}
	return "portable"
}

// String returns the name and the additional features. Any two sets for which code can be generated have different
// strings.
func (f Features) String() string {
	var b strings.Builder
	b.WriteString(f.Name())
	for _, named := range namedFeatures {
		if f.Has(named.feature) {
			b.WriteString("+" + named.name)
		}
	}
	return b.String()
}

// HostFeatures returns the features that plans of this process use, except for the matrix unit. The result never
// changes while the process runs, so that packed data fits every kernel. These values of GODEBUG, read by
// golang.org/x/sys/cpu, remove features: cpu.avx2=off, cpu.avx512f=off, cpu.avxvnni=off and cpu.avx512vnni=off.
// GRAPHRUN_TARGET selects another set: a name and additional features, such as avx512-dotbytes512 or arm64-dotprod (see
// [Features.String]). A set that the processor lacks is for planning only: see [RunError].
func HostFeatures() Features { return host &^ MatrixUnit }

// TargetError returns why GRAPHRUN_TARGET is invalid, or nil. [HostFeatures] is [Portable] then.
func TargetError() error { return errTarget }

// RunError returns an error if this process cannot run the plans that it makes, because GRAPHRUN_TARGET names a set
// that the processor lacks. Otherwise it returns nil. A plan for AVX-512 is the same if it is made on a processor with
// AVX2 only.
func RunError() error { return errRun }

// RunnableFeatures returns the features of [HostFeatures] that the processor has, for code that runs while planning.
func RunnableFeatures() Features { return HostFeatures() & detected }

// host is the result of HostFeatures, with MatrixUnit unless GRAPHRUN_TARGET excludes it. In this file, `detected` has
// the features of the processor itself, without MatrixUnit.
var host, errTarget, errRun = parseTarget(os.Getenv(targetVariable))

// targetVariable is the environment variable that selects a set: see HostFeatures.
const targetVariable = "GRAPHRUN_TARGET"

// parseTarget returns the features that a target names. errRun is not nil if the processor lacks one. err is not nil if
// there is no such target, or if the processor cannot make plans for it, because it has another architecture. For an
// empty target, parseTarget returns all features of the processor, and MatrixUnit.
func parseTarget(target string) (_ Features, err, errRun error) {
	if target == "" {
		return detected | MatrixUnit, nil, nil
	}
	set, err := featuresOfTarget(target)
	if err != nil {
		return Portable, err, nil
	}
	if lacking := set &^ (detected | MatrixUnit); lacking == 0 && (!set.Has(MatrixUnit) || hasMatrixUnit()) {
		return set, nil, nil
	}
	lacks := fmt.Errorf("%s=%s: this processor has %v only", targetVariable, target, detected)
	if set.Has(AVX2) && detected.Has(AVX2) || set.Has(NEON) && detected.Has(NEON) {
		return set, nil, fmt.Errorf("%w: it can make plans for the target, but not run them", lacks)
	}
	return Portable, lacks, nil
}

// featuresOfTarget returns the features that a target such as arm64-dotprod names, and the features that these require.
func featuresOfTarget(target string) (Features, error) {
	name, featureList, _ := strings.Cut(target, "-")
	set, ok := map[string]Features{"portable": Portable, "avx2": AVX2, "avx512": AVX512, "arm64": NEON}[name]
	if !ok {
		return Portable, fmt.Errorf("%s=%s: want portable, avx2, avx512 or arm64, and features as in arm64-dotprod",
			targetVariable, target)
	}
	if featureList == "" {
		return set, nil
	}
	for featureName := range strings.SplitSeq(featureList, "-") {
		// A feature is rejected if it requires features of another target: avx2 has no dotbytes512.
		index := slices.IndexFunc(namedFeatures, func(candidate namedFeature) bool {
			return candidate.name == featureName && (set|candidate.requires).Name() == name
		})
		if index < 0 {
			return Portable, fmt.Errorf("%s=%s: %s has no feature %q", targetVariable, target, name, featureName)
		}
		set |= namedFeatures[index].feature | namedFeatures[index].requires
	}
	return set, nil
}

// HostWithUnit returns [HostFeatures] and the matrix unit, if the processor has one and the system permits its use, or
// if a target for planning only has one. The first call requests the permission for the process.
// GODEBUG=cpu.amxtile=off and cpu.amxint8=off remove the unit.
func HostWithUnit() Features {
	if host.Has(MatrixUnit) && (errRun != nil || hasMatrixUnit()) {
		return host
	}
	return HostFeatures()
}

// Describe returns the instruction set in use, and whether there is a matrix unit. Features of arm64 are added.
func Describe() string {
	switch {
	case HostWithUnit().Has(MatrixUnit):
		return HostFeatures().Name() + " with a matrix unit for bytes"
	case HostFeatures().Has(NEON):
		return HostFeatures().String()
	}
	return HostFeatures().Name()
}

// CPUName returns the processor's name. On Linux the name includes the model. If the name is unknown, CPUName returns
// the architecture.
func CPUName() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer file.Close()
	found := map[string]string{}
	for scanner := bufio.NewScanner(file); scanner.Scan() && scanner.Text() != ""; { // the first processor
		if key, value, ok := strings.Cut(scanner.Text(), ":"); ok {
			found[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	name := found["model name"]
	if name == "" {
		return runtime.GOARCH
	}
	// Virtual machines use one name for several generations.
	return fmt.Sprintf("%s (family %s, model %s)", name, found["cpu family"], found["model"])
}
