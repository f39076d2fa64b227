package iter

import "github.com/graphrun/graphrun/tensor"

// Each function of this file makes a [Kernel] from a function f. f computes one element of each result from one element
// of each operand. For example, this kernel multiplies:
//
//	Map2(func(a, b float32) float32 { return a * b })
//
// MapN is for N operands and one result, and MapNOutM for M results. A, B, C and E are the types of the operands; D
// (destination), R and S are the types of the results.
//
// Workers (see [Workers]) call f concurrently and in no particular order, so its results must depend only on its
// arguments. If f is cheap, the matching Slice function (Slice2 for Map2) is several times faster.

// Map0 makes a Kernel of a function of no operand: a fill.
func Map0[D tensor.Element](f func() D) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice0(func(dst []D) {
		for i := range dst {
			dst[i] = f()
		}
	})
}

// Map1 makes a Kernel of a function of one operand.
func Map1[D, A tensor.Element](f func(a A) D) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice1(func(dst []D, a []A) {
		for i := range dst {
			dst[i] = f(a[i])
		}
	})
}

// Map2 makes a Kernel of a function of two operands, as PyTorch's cpu_kernel does.
func Map2[D, A, B tensor.Element](f func(a A, b B) D) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice2(func(dst []D, a []A, b []B) {
		for i := range dst {
			dst[i] = f(a[i], b[i])
		}
	})
}

// Map3 makes a Kernel of a function of three operands.
func Map3[D, A, B, C tensor.Element](f func(a A, b B, c C) D) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice3(func(dst []D, a []A, b []B, c []C) {
		for i := range dst {
			dst[i] = f(a[i], b[i], c[i])
		}
	})
}

// Map4 makes a Kernel of a function of four operands.
func Map4[D, A, B, C, E tensor.Element](f func(a A, b B, c C, e E) D) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice4(func(dst []D, a []A, b []B, c []C, e []E) {
		for i := range dst {
			dst[i] = f(a[i], b[i], c[i], e[i])
		}
	})
}

// Map0Out2 makes a Kernel of a function of no operand with two results.
func Map0Out2[D, R tensor.Element](f func() (D, R)) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice0Out2(func(d0 []D, d1 []R) {
		for i := range d0 {
			d0[i], d1[i] = f()
		}
	})
}

// Map1Out2 makes a Kernel of a function of one operand with two results, as PyTorch's
// cpu_kernel_multiple_outputs does.
func Map1Out2[D, R, A tensor.Element](f func(a A) (D, R)) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice1Out2(func(d0 []D, d1 []R, a []A) {
		for i := range d0 {
			d0[i], d1[i] = f(a[i])
		}
	})
}

// Map2Out2 makes a Kernel of a function of two operands with two results.
func Map2Out2[D, R, A, B tensor.Element](f func(a A, b B) (D, R)) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice2Out2(func(d0 []D, d1 []R, a []A, b []B) {
		for i := range d0 {
			d0[i], d1[i] = f(a[i], b[i])
		}
	})
}

// Map3Out2 makes a Kernel of a function of three operands with two results.
func Map3Out2[D, R, A, B, C tensor.Element](f func(a A, b B, c C) (D, R)) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice3Out2(func(d0 []D, d1 []R, a []A, b []B, c []C) {
		for i := range d0 {
			d0[i], d1[i] = f(a[i], b[i], c[i])
		}
	})
}

// Map4Out2 makes a Kernel of a function of four operands with two results.
func Map4Out2[D, R, A, B, C, E tensor.Element](f func(a A, b B, c C, e E) (D, R)) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice4Out2(func(d0 []D, d1 []R, a []A, b []B, c []C, e []E) {
		for i := range d0 {
			d0[i], d1[i] = f(a[i], b[i], c[i], e[i])
		}
	})
}

// Map0Out3 makes a Kernel of a function of no operand with three results.
func Map0Out3[D, R, S tensor.Element](f func() (D, R, S)) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice0Out3(func(d0 []D, d1 []R, d2 []S) {
		for i := range d0 {
			d0[i], d1[i], d2[i] = f()
		}
	})
}

// Map1Out3 makes a Kernel of a function of one operand with three results.
func Map1Out3[D, R, S, A tensor.Element](f func(a A) (D, R, S)) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice1Out3(func(d0 []D, d1 []R, d2 []S, a []A) {
		for i := range d0 {
			d0[i], d1[i], d2[i] = f(a[i])
		}
	})
}

// Map2Out3 makes a Kernel of a function of two operands with three results.
func Map2Out3[D, R, S, A, B tensor.Element](f func(a A, b B) (D, R, S)) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice2Out3(func(d0 []D, d1 []R, d2 []S, a []A, b []B) {
		for i := range d0 {
			d0[i], d1[i], d2[i] = f(a[i], b[i])
		}
	})
}

// Map3Out3 makes a Kernel of a function of three operands with three results.
func Map3Out3[D, R, S, A, B, C tensor.Element](f func(a A, b B, c C) (D, R, S)) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice3Out3(func(d0 []D, d1 []R, d2 []S, a []A, b []B, c []C) {
		for i := range d0 {
			d0[i], d1[i], d2[i] = f(a[i], b[i], c[i])
		}
	})
}

// Map4Out3 makes a Kernel of a function of four operands with three results.
func Map4Out3[D, R, S, A, B, C, E tensor.Element](f func(a A, b B, c C, e E) (D, R, S)) Kernel {
	if f == nil {
		return nilFunctionKernel
	}
	return Slice4Out3(func(d0 []D, d1 []R, d2 []S, a []A, b []B, c []C, e []E) {
		for i := range d0 {
			d0[i], d1[i], d2[i] = f(a[i], b[i], c[i], e[i])
		}
	})
}
