package machine

// ISA is a level of vector instructions for which this module has code of its own. Each level
// includes those below it, so that code asks for the least level that it needs.
type ISA uint8

const (
	// Portable is Go alone: other processors, and builds with the tag noasm.
	Portable ISA = iota
	// AVX2 has 256-bit vectors with FMA, F16C and BMI2 (x86-64-v3).
	AVX2
	// AVX512 has 512-bit vectors with masks: the F, BW, DQ and VL parts (x86-64-v4).
	AVX512
)

// MultipliesBytes reports whether this processor has, for the vectors of a level, an instruction that adds up products
// of bytes: AVX512_VNNI or AVX_VNNI. GODEBUG=cpu.avx512vnni=off and cpu.avxvnni=off leave them out.
func (i ISA) MultipliesBytes() bool { return i <= instructions && byteProducts[min(i, AVX512)] }

// MultipliesMatrices reports whether this processor has a unit for products of matrices of bytes, AMX, and the system
// lets the process use it: only who has asked so may. GODEBUG=cpu.amxtile=off and cpu.amxint8=off leave it out.
func MultipliesMatrices() bool { return matrixUnit() }

// Describe tells what machine code is made for: the instruction set in use, and whether there is a matrix unit.
func Describe() string {
	if MultipliesMatrices() {
		return Instructions().String() + " with a matrix unit for bytes"
	}
	return Instructions().String()
}

func (i ISA) String() string { return [...]string{"portable", "avx2", "avx512"}[min(i, AVX512)] }

// Instructions returns the highest level that this processor and this build have. It is the one
// place where an instruction set is chosen: engines with kernels for several levels take theirs
// by it. It never changes while the process runs, so that packed data fits every kernel.
// GODEBUG=cpu.avx512f=off or cpu.avx2=off, as golang.org/x/sys/cpu reads them, lower it.
func Instructions() ISA { return instructions }
