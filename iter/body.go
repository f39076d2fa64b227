package iter

import "unsafe"

// Slice1 makes a Body of a function over slices with one input. It must write every
// element of dst; dst may be the same memory as the input.
func Slice1[D, A any](f func(dst []D, a []A)) Body {
	return func(p []unsafe.Pointer, n int) error {
		f(unsafe.Slice((*D)(p[0]), n), unsafe.Slice((*A)(p[1]), n))
		return nil
	}
}

// Slice2 makes a Body of a function over slices with two inputs.
func Slice2[D, A, B any](f func(dst []D, a []A, b []B)) Body {
	return func(p []unsafe.Pointer, n int) error {
		f(unsafe.Slice((*D)(p[0]), n), unsafe.Slice((*A)(p[1]), n), unsafe.Slice((*B)(p[2]), n))
		return nil
	}
}

// Slice3 makes a Body of a function over slices with three inputs.
func Slice3[D, A, B, C any](f func(dst []D, a []A, b []B, c []C)) Body {
	return func(p []unsafe.Pointer, n int) error {
		f(unsafe.Slice((*D)(p[0]), n), unsafe.Slice((*A)(p[1]), n), unsafe.Slice((*B)(p[2]), n), unsafe.Slice((*C)(p[3]), n))
		return nil
	}
}

// Kernel1 makes a Body of a function of one element. A function over slices runs several
// times faster where the function itself is cheap.
func Kernel1[D, A any](f func(a A) D) Body {
	return Slice1(func(dst []D, a []A) {
		for i := range dst {
			dst[i] = f(a[i])
		}
	})
}

// Kernel2 makes a Body of a function of two elements.
func Kernel2[D, A, B any](f func(a A, b B) D) Body {
	return Slice2(func(dst []D, a []A, b []B) {
		for i := range dst {
			dst[i] = f(a[i], b[i])
		}
	})
}

// Kernel3 makes a Body of a function of three elements.
func Kernel3[D, A, B, C any](f func(a A, b B, c C) D) Body {
	return Slice3(func(dst []D, a []A, b []B, c []C) {
		for i := range dst {
			dst[i] = f(a[i], b[i], c[i])
		}
	})
}

// Kernel1Out2 makes a Body of a function of one element with two results.
func Kernel1Out2[D, E, A any](f func(a A) (D, E)) Body {
	return func(p []unsafe.Pointer, n int) error {
		d, e, a := unsafe.Slice((*D)(p[0]), n), unsafe.Slice((*E)(p[1]), n), unsafe.Slice((*A)(p[2]), n)
		for i := range a {
			d[i], e[i] = f(a[i])
		}
		return nil
	}
}

// Kernel2Out2 makes a Body of a function of two elements with two results.
func Kernel2Out2[D, E, A, B any](f func(a A, b B) (D, E)) Body {
	return func(p []unsafe.Pointer, n int) error {
		d, e := unsafe.Slice((*D)(p[0]), n), unsafe.Slice((*E)(p[1]), n)
		a, b := unsafe.Slice((*A)(p[2]), n), unsafe.Slice((*B)(p[3]), n)
		for i := range a {
			d[i], e[i] = f(a[i], b[i])
		}
		return nil
	}
}
