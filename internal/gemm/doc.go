// Package gemm multiplies dense matrices: C = A·B (+ C) (+ bias), where A has m×k elements, B has k×n, and C has m×n.
// Matrix products, linear layers, recurrent layers and convolutions (by implicit GEMM) use it.
//
// A register tile is the part of C that the innermost loop computes in registers. A panel is a group of adjacent rows
// of A or columns of B, as wide as a register tile. A panel is packed if its elements have been copied to the order in
// which the innermost loop reads them. A kernel set has the innermost loops for one element type, either for an
// instruction set or in portable Go.
//
// # Plans, phases and tiles
//
// A Plan is made once for given shapes and strides, and executed any number of times. The caller executes the plan on
// the caller's goroutines:
//
//	for phase := range plan.Phases() {
//		// these calls are independent: run them on any workers, then join
//		for tile := range plan.Tiles(phase) {
//			plan.Run(phase, tile, &args, workerScratch)
//		}
//	}
//
// A plan that shares packed panels between tiles has pairs of phases. In some plans, the first phase of a pair packs,
// and the second phase computes. In other plans, the first phase computes the first row of tiles and also packs B, and
// the second phase computes the other rows. Plans without shared panels have one phase. Tiles of a compute phase write
// disjoint parts of C. Args.Shared (SharedBytes bytes) belongs to one execution. Only one Run call at a time may use a
// worker scratch (WorkerBytes bytes). Run allocates nothing.
//
// The element type is the value Spec.DType. Plans have no type parameters, and only the loops of a kernel set depend on
// the type.
//
// # Determinism
//
// The number of tiles and the order of additions depend only on the Spec and on the kernel set. Results therefore
// have the same bits for any number of workers and any order of tiles. Kernel sets divide K and round differently, so
// bits may differ between CPUs. K is divided into blocks, whose sums are added to C in order. With K = 0, C becomes
// zero or the bias. No product is skipped, so 0·Inf and 0·NaN give NaN.
//
// # Operands
//
// Strides count elements and may be zero or negative for A and B. The elements of C must have distinct addresses. C is
// fastest with a column stride of 1 or, with strided A and B, with a row stride of 1. Inputs may overlap one another; C
// must not overlap an input. While Run executes, the caller must keep Args reachable for the garbage collector. Args
// keeps the operands reachable.
//
// PackA and PackB pack a constant operand once. It is then passed with the source Prepacked. For the source Custom, the
// plan calls a PackFunc for ranges of K and groups of panels. Each element is packed once per execution.
//
// # Convolution
//
// With images in NHWC order, each row of A belongs to an output pixel. k runs over (kh, kw, channel): the rows and
// columns of the window, and the input channels. B is the prepacked weight matrix of k×Cout:
//
//	Spec{DType: d, M: pixels, N: cout, K: kh*kw*cin, A: Operand{Source: Custom},
//		B: Operand{Source: Prepacked}, CRowStride: cout, CColStride: 1, Bias: BiasCols, BiasStride: 1}
//
// The caller's Args.PackA packs panels of PackRows pixels. For each (kh, kw) it collects one pointer per pixel to the
// pixel's channels (nil in the padding), and calls Interleave. With images in NCHW order, the weight matrix is the
// prepacked A of Cout×k, and each column of B belongs to an output pixel:
//
//	Spec{DType: d, M: cout, N: pixels, K: cin*kh*kw, A: Operand{Source: Prepacked},
//		B: Operand{Source: Custom}, CRowStride: pixels, CColStride: 1, Bias: BiasRows, BiasStride: 1}
//
// The caller's Args.PackB writes input pixels. For each k = (channel, kh, kw) and PackCols output pixels, it writes the
// input pixels that are multiplied by the weights with this k.
//
// # Kernels
//
// Products of float32 and float64 run machine code for AVX-512, AVX2 or NEON. Package tile generates this code for the
// register tiles of a plan (see coded.go). machine.HostFeatures selects the instructions, and jit.Available reports
// whether code can be generated. Kernels in Go multiply packed panels in three cases: for other types, with the build
// tag noasm, and where no code can be generated. On amd64, products with few rows or columns use assembly routines,
// which need no generated code.
package gemm
