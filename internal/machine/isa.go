package machine

// ISA is a level of vector instructions. Each level includes those below it, so code asks for the lowest
// level that it needs.
type ISA uint8

const (
	// Portable is plain Go: other processors, and builds with the tag noasm.
	Portable ISA = iota
	// AVX2 has 256-bit vectors with FMA, F16C and BMI2 (x86-64-v3).
	AVX2
	// AVX512 has 512-bit vectors with masks: the F, BW, DQ and VL parts (x86-64-v4).
	AVX512
)

// MultipliesBytes reports whether this processor has a dot-product instruction for bytes with the vectors of
// a level: AVX512_VNNI or AVX_VNNI. GODEBUG=cpu.avx512vnni=off and cpu.avxvnni=off disable them.
func (i ISA) MultipliesBytes() bool { return i <= instructions && byteProducts[min(i, AVX512)] }

// MultipliesMatrices reports whether this processor has a matrix unit for bytes (AMX), and the system permits
// its use, which the process must request. GODEBUG=cpu.amxtile=off and cpu.amxint8=off disable it.
func MultipliesMatrices() bool { return matrixUnit() }

// Describe returns the instruction set in use, and whether there is a matrix unit.
func Describe() string {
	if MultipliesMatrices() {
		return Instructions().String() + " with a matrix unit for bytes"
	}
	return Instructions().String()
}

func (i ISA) String() string { return [...]string{"portable", "avx2", "avx512"}[min(i, AVX512)] }

// Instructions returns the highest level of this processor and this build. It is the only place that chooses
// an instruction set. It never changes while the process runs, so packed data fits every kernel.
// GODEBUG=cpu.avx512f=off or cpu.avx2=off, read by golang.org/x/sys/cpu, lower it.
func Instructions() ISA { return instructions }
