package machine

import "strings"

// Features is a set of capabilities of a processor: the instructions that generated code and assembly may use.
// Generators and engines get a set as an argument and ask for the members that they need ([Features.Has]). Sets have no
// order: instructions of other architectures, such as NEON and its dot products, are further members.
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
)

// Sets for which code can be generated.
const (
	AVX2   = Vector256 | FMA | Float16 // x86-64-v3
	AVX512 = AVX2 | Vector512          // x86-64-v4
)

// extras are the members that [Features.String] adds to the name of a set.
var extras = []struct {
	feature Features
	name    string
}{{DotBytes256, "dotbytes256"}, {DotBytes512, "dotbytes512"}, {MatrixUnit, "matrix"}}

// Has reports whether the set has all given features.
func (f Features) Has(features Features) bool { return f&features == features }

// Vectors256 returns the set without the features of wider vectors.
func (f Features) Vectors256() Features { return f &^ (Vector512 | DotBytes512 | MatrixUnit) }

// DotsBytes reports whether the set has a dot product of bytes for its widest vectors.
func (f Features) DotsBytes() bool {
	if f.Has(Vector512) {
		return f.Has(DotBytes512)
	}
	return f.Has(DotBytes256)
}

// Name returns the name of the set's vector instructions: avx512, avx2 or portable. Profiles are named after it.
func (f Features) Name() string {
	switch {
	case f.Has(AVX512):
		return "avx512"
	case f.Has(AVX2):
		return "avx2"
	}
	return "portable"
}

// String returns the name and the additional features. Sets for which there is code differ in their strings.
func (f Features) String() string {
	var b strings.Builder
	b.WriteString(f.Name())
	for _, x := range extras {
		if f.Has(x.feature) {
			b.WriteString("+" + x.name)
		}
	}
	return b.String()
}

// Host returns the features that this process uses, except for the matrix unit. It is the only function that reads the
// processor. The result never changes while the process runs, so that packed data fits every kernel. These values of
// GODEBUG, read by golang.org/x/sys/cpu, remove features: cpu.avx2=off, cpu.avx512f=off, cpu.avxvnni=off and
// cpu.avx512vnni=off.
func Host() Features { return host }

// HostWithUnit returns [Host] and the matrix unit, if the processor has one and the system permits its use. The first
// call requests the permission for the process. GODEBUG=cpu.amxtile=off and cpu.amxint8=off remove the unit.
func HostWithUnit() Features {
	if matrixUnit() {
		return host | MatrixUnit
	}
	return host
}

// Describe returns the instruction set in use, and whether there is a matrix unit.
func Describe() string {
	if HostWithUnit().Has(MatrixUnit) {
		return Host().Name() + " with a matrix unit for bytes"
	}
	return Host().Name()
}
