package gemm

import (
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// This file has the portable kernel set: functions for each element type, with the signatures of kernel.go. kc and k
// are numbers of terms. n is the number of elements of a row. The distances astep (between the terms of a panel of A)
// and ldb, ldc, ldinit, ldy (between rows) are in bytes.
//
//	goMicro            a register tile of a product of packed panels
//	goDot, goDots      products with few rows or columns: one dot product, or many
//	goAxpy4, goAxpys   the same products: add four rows of B, times factors, to a row of C; or any number of rows
//	goProduct          tiny products
//	goStore            adds sums and a bias to C

// These are the panel widths of the portable kernels: the rows and columns of a register tile.
const (
	goMR = 4
	goNR = 4
)

// number lists the element types of products. Machine code exists for float32 and float64 only.
type number interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64 | complex64 | complex128
}

// portable are the kernel sets in Go.
var portable = map[tensor.DType]*kernelSet{
	tensor.Uint8: goKernels[uint8](), tensor.Int8: goKernels[int8](),
	tensor.Uint16: goKernels[uint16](), tensor.Int16: goKernels[int16](),
	tensor.Uint32: goKernels[uint32](), tensor.Int32: goKernels[int32](),
	tensor.Uint64: goKernels[uint64](), tensor.Int64: goKernels[int64](),
	tensor.Float32: goKernels[float32](), tensor.Float64: goKernels[float64](),
	tensor.Complex64: goKernels[complex64](), tensor.Complex128: goKernels[complex128](),
}

// goKernels returns the portable kernel set of T.
func goKernels[T number]() *kernelSet {
	return &kernelSet{
		name: "go", mr: goMR, nr: goNR, kc: 256, elemBytes: int(unsafe.Sizeof(*(*T)(nil))), micro: goMicro[T],
		thinKernels: thinKernels{axpy4: goAxpy4[T], dot: goDot[T], axpys: goAxpys[T], dots: goDots[T]},
		sharedLoops: sharedLoops{product: productOf[T](), store: goStore[T], lastRows: goAxpys[T]},
	}
}

// goMicro is the portable microFunc: c = a·b + init, plus rowBias[i] in row i if rowBias is not nil. a is a panel of 4
// rows, and b is a panel of 4 columns. goMicro stores the first rows×cols sums. init may be c. rows and cols are at
// most 4. goMicro makes two passes over the panels: the first pass computes columns 0 and 1 of the register tile, and
// the second pass computes columns 2 and 3. Each pass has 4×2 accumulators. A single pass would have 16 accumulators,
// but the compiler uses 15 vector registers on amd64. Spilling would cost more than reading A twice.
func goMicro[T number](kc int, a unsafe.Pointer, astep int, b, c unsafe.Pointer, ldc int,
	init unsafe.Pointer, ldinit int, rowBias unsafe.Pointer, rows, cols int) {
	goMicroHalf[T](kc, a, astep, b, c, ldc, init, ldinit, rowBias, rows, min(cols, 2))
	if cols > 2 {
		offset := 2 * unsafe.Sizeof(*(*T)(nil))
		goMicroHalf[T](kc, a, astep, unsafe.Add(b, offset), unsafe.Add(c, offset), ldc,
			unsafe.Add(init, offset), ldinit, rowBias, rows, cols-2)
	}
}

// goMicroHalf computes at most two of the columns of goMicro. Here and below, the conversion T(x*y) rounds a product.
// Without the conversion, the compiler may fuse the product with the addition.
func goMicroHalf[T number](kc int, a unsafe.Pointer, astep int, b, c unsafe.Pointer, ldc int,
	init unsafe.Pointer, ldinit int, rowBias unsafe.Pointer, rows, cols int) {
	var c00, c01, c10, c11, c20, c21, c30, c31 T
	bstep := goNR * int(unsafe.Sizeof(c00))
	// Offsets are used instead of moving pointers, because a pointer beyond the last row could point into another
	// object, which is invalid in Go.
	offsetA, offsetB := 0, 0
	for ; kc > 0; kc-- {
		rowsA := (*[4]T)(unsafe.Add(a, offsetA))
		colsB := (*[2]T)(unsafe.Add(b, offsetB))
		offsetA += astep
		offsetB += bstep
		b0, b1 := colsB[0], colsB[1]
		a0, a1, a2, a3 := rowsA[0], rowsA[1], rowsA[2], rowsA[3]
		c00 += T(a0 * b0)
		c10 += T(a1 * b0)
		c20 += T(a2 * b0)
		c30 += T(a3 * b0)
		c01 += T(a0 * b1)
		c11 += T(a1 * b1)
		c21 += T(a2 * b1)
		c31 += T(a3 * b1)
	}
	sums := [8]T{c00, c01, c10, c11, c20, c21, c30, c31}
	for i := 0; i < rows; i++ {
		var bias T
		if rowBias != nil {
			bias = *elemAt[T](rowBias, i)
		}
		for j := 0; j < cols; j++ {
			*elemAt[T](unsafe.Add(c, i*ldc), j) = sums[2*i+j] + bias + *elemAt[T](unsafe.Add(init, i*ldinit), j)
		}
	}
}

// goAxpy4 is the portable axpyFunc: it adds four rows of b, times the four factors x, to the row y.
func goAxpy4[T number](n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer) {
	xs := *(*[4]T)(x)
	ys := unsafe.Slice((*T)(y), n)
	b0 := unsafe.Slice((*T)(b), n)[:len(ys)]
	b1 := unsafe.Slice((*T)(unsafe.Add(b, ldb)), n)[:len(ys)]
	b2 := unsafe.Slice((*T)(unsafe.Add(b, 2*ldb)), n)[:len(ys)]
	b3 := unsafe.Slice((*T)(unsafe.Add(b, 3*ldb)), n)[:len(ys)]
	for j := range ys {
		ys[j] += T(xs[0]*b0[j]) + T(xs[1]*b1[j]) + T(xs[2]*b2[j]) + T(xs[3]*b3[j])
	}
}

// goDot is the portable dotFunc: out = Σ_k x[k]·y[k]. Four independent sums hide the latency of additions.
func goDot[T number](n int, x, y, out unsafe.Pointer) {
	xs, ys := unsafe.Slice((*T)(x), n), unsafe.Slice((*T)(y), n)
	var s0, s1, s2, s3 T
	for len(xs) >= 4 && len(ys) >= 4 {
		s0 += T(xs[0] * ys[0])
		s1 += T(xs[1] * ys[1])
		s2 += T(xs[2] * ys[2])
		s3 += T(xs[3] * ys[3])
		xs, ys = xs[4:], ys[4:]
	}
	for i, element := range xs {
		s0 += T(element * ys[i])
	}
	*(*T)(out) = (s0 + s1) + (s2 + s3)
}

// goAxpys is the portable axpysFunc: it adds k rows of b, times the factors x, to the row y.
func goAxpys[T number](n int, y, b unsafe.Pointer, ldb int, x unsafe.Pointer, k int) {
	ys := unsafe.Slice((*T)(y), n)
	for term, factor := range unsafe.Slice((*T)(x), k) {
		for j, element := range unsafe.Slice((*T)(unsafe.Add(b, term*ldb)), n)[:len(ys)] {
			ys[j] += T(factor * element)
		}
	}
}

// goDots is the portable dotsFunc: the dot products of x with each of 4*colGroups rows of y. The rows of y are columns
// of B.
func goDots[T number](n int, x, y unsafe.Pointer, ldy int, out unsafe.Pointer, colGroups int) {
	for j := range 4 * colGroups {
		goDot[T](n, x, unsafe.Add(y, j*ldy), unsafe.Pointer(elemAt[T](out, j)))
	}
}

// productOf returns the product loops of T.
func productOf[T number]() productFunc {
	if _, ok := any(T(0)).(float32); ok {
		return float32Product
	}
	return goProduct[T]
}

// float32Product does the work of [goProduct] for float32. It sums in float64, because products of two float32 are
// exact in float64. Sums of rounded products in float32 would be less precise than the fused multiply-adds of machine
// code.
func float32Product(m, n, k int, a, b, c, bias matrix, accumulate bool) {
	for i := range m {
		row := unsafe.Pointer(elemAt[float32](a.ptr, i*a.rowStride))
		j := 0
		for ; j+4 <= n; j += 4 { // four independent sums hide the latency of additions
			var s0, s1, s2, s3 float64
			for term := range k {
				x := float64(*elemAt[float32](row, term*a.colStride))
				y := unsafe.Pointer(elemAt[float32](b.ptr, j*b.colStride+term*b.rowStride))
				s0 += float64(x * float64(*elemAt[float32](y, 0)))
				s1 += float64(x * float64(*elemAt[float32](y, b.colStride)))
				s2 += float64(x * float64(*elemAt[float32](y, 2*b.colStride)))
				s3 += float64(x * float64(*elemAt[float32](y, 3*b.colStride)))
			}
			storeSum(float32(s0), i, j, c, bias, accumulate)
			storeSum(float32(s1), i, j+1, c, bias, accumulate)
			storeSum(float32(s2), i, j+2, c, bias, accumulate)
			storeSum(float32(s3), i, j+3, c, bias, accumulate)
		}
		for ; j < n; j++ {
			var sum float64
			for term := range k {
				x := float64(*elemAt[float32](row, term*a.colStride))
				sum += float64(x * float64(*elemAt[float32](b.ptr, j*b.colStride+term*b.rowStride)))
			}
			storeSum(float32(sum), i, j, c, bias, accumulate)
		}
	}
}

// goProduct is the portable productFunc for all types except float32: C = A·B + bias, or C += A·B + bias if accumulate
// is true. A is m×k, and B is k×n.
func goProduct[T number](m, n, k int, a, b, c, bias matrix, accumulate bool) {
	for i := range m {
		row := unsafe.Pointer(elemAt[T](a.ptr, i*a.rowStride))
		j := 0
		for ; j+4 <= n; j += 4 { // four independent sums hide the latency of additions
			var s0, s1, s2, s3 T
			for term := range k {
				x, y := *elemAt[T](row, term*a.colStride), unsafe.Pointer(elemAt[T](b.ptr, j*b.colStride+term*b.rowStride))
				s0 += T(x * *elemAt[T](y, 0))
				s1 += T(x * *elemAt[T](y, b.colStride))
				s2 += T(x * *elemAt[T](y, 2*b.colStride))
				s3 += T(x * *elemAt[T](y, 3*b.colStride))
			}
			storeSum(s0, i, j, c, bias, accumulate)
			storeSum(s1, i, j+1, c, bias, accumulate)
			storeSum(s2, i, j+2, c, bias, accumulate)
			storeSum(s3, i, j+3, c, bias, accumulate)
		}
		for ; j < n; j++ {
			var sum T
			for term := range k {
				sum += T(*elemAt[T](row, term*a.colStride) * *elemAt[T](b.ptr, j*b.colStride+term*b.rowStride))
			}
			storeSum(sum, i, j, c, bias, accumulate)
		}
	}
}

// goStore is the portable storeFunc: C = sums + bias, or C += sums + bias if accumulate is true.
func goStore[T number](m, n int, sums, c, bias matrix, accumulate bool) {
	for i := range m {
		for j := range n {
			storeSum(*elemAt[T](sums.ptr, i*sums.rowStride+j*sums.colStride), i, j, c, bias, accumulate)
		}
	}
}

// storeSum stores a sum plus its bias in element (i, j) of C, or adds both to the element if accumulate is true.
func storeSum[T number](sum T, i, j int, c, bias matrix, accumulate bool) {
	if bias.ptr != nil {
		sum += *elemAt[T](bias.ptr, i*bias.rowStride+j*bias.colStride)
	}
	dst := elemAt[T](c.ptr, i*c.rowStride+j*c.colStride)
	if accumulate {
		sum += *dst
	}
	*dst = sum
}

// elemAt returns the address of element i of an array of T.
func elemAt[T any](array unsafe.Pointer, i int) *T {
	return (*T)(unsafe.Add(array, i*int(unsafe.Sizeof(*(*T)(nil)))))
}
