package gemm

import "unsafe"

// PackFunc fills packed panels from a source only the caller knows, such as
// the implicit im2col matrix of a convolution. For lanes l in [l0, l1) (rows
// of A or columns of B) and depths k in [k0, k1) it stores element (l, k) at
//
//	dst[(l-l0)/W*W*(k1-k0) + (k-k0)*W + (l-l0)%W]
//
// where W is Plan.PackRows for A and Plan.PackCols for B. l0 is a multiple of
// W. Lanes of the last panel past l1 may be left unwritten: they reach no
// element of C. dst holds exactly the whole panels. Calls for different tiles
// run concurrently when the caller runs those tiles concurrently.
type PackFunc[T Number] func(dst []T, k0, k1, l0, l1 int)

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func roundUp(a, b int) int { return ceilDiv(a, b) * b }

// PackedALen is the length of PackA's result for an m×k matrix.
func PackedALen[T Number](m, k int) int { return roundUp(m, kernelsOf[T]().mr) * k }

// PackedBLen is the length of PackB's result for a k×n matrix.
func PackedBLen[T Number](k, n int) int { return roundUp(n, kernelsOf[T]().nr) * k }

// PackA packs the m×k matrix at src, with element strides rs and cs, into
// dst[:PackedALen(m, k)] for Source Prepacked. A 64-byte aligned dst is
// faster to read. The format depends on the CPU: it must not be stored.
func PackA[T Number](dst []T, src unsafe.Pointer, m, k, rs, cs int) {
	set := kernelsOf[T]()
	packPanels(set, dst[:roundUp(m, set.mr)*k], set.mr, src, rs, cs, 0, k, 0, m)
}

// PackB packs the k×n matrix at src, with element strides rs and cs, into
// dst[:PackedBLen(k, n)]; see PackA.
func PackB[T Number](dst []T, src unsafe.Pointer, k, n, rs, cs int) {
	set := kernelsOf[T]()
	packPanels(set, dst[:roundUp(n, set.nr)*k], set.nr, src, cs, rs, 0, k, 0, n)
}

// Interleave stores dst[k*w+l] = runs[l][k] for k < depth and l < len(runs)
// <= w, reading zeros for a nil run. It is the inner step of a PackFunc whose
// lanes are contiguous along K, such as pixels of an NHWC image: dst starts at
// the panel's row for the first k and may cover only part of its depth.
func (p *Plan[T]) Interleave(dst []T, w int, runs []unsafe.Pointer, depth int) {
	if depth == 0 || len(runs) == 0 {
		return
	}
	dst = dst[:(depth-1)*w+len(runs)]
	l := 0
	for ; l+4 <= len(runs); l += 4 {
		r := runs[l : l+4]
		if r[0] == nil || r[1] == nil || r[2] == nil || r[3] == nil {
			for q, s := range r {
				interleaveOne(dst[l+q:], w, s, 1, depth)
			}
			continue
		}
		interleave4(p.set, dst[l:], w, r[0], r[1], r[2], r[3], 1, depth)
	}
	for ; l < len(runs); l++ {
		interleaveOne(dst[l:], w, runs[l], 1, depth)
	}
}

// packPanels is the PackFunc of a strided operand: element (l, k) lies ls·l +
// ks·k elements from src. Lanes past l1 are stored as zero.
func packPanels[T Number](set *kernelSet, dst []T, w int, src unsafe.Pointer, ls, ks, k0, k1, l0, l1 int) {
	depth := k1 - k0
	if depth == 0 {
		return
	}
	for l := l0; l < l1; l += w {
		panel := dst[:w*depth]
		dst = dst[w*depth:]
		from := unsafe.Pointer(at[T](src, l*ls+k0*ks))
		if ls == 1 && w <= l1-l {
			copyPanel(panel, w, from, ks, depth)
			continue
		}
		lanes := min(w, l1-l)
		if lanes < w {
			clear(panel)
		}
		if ls == 1 && ks != 1 {
			for k := range depth {
				copy(panel[k*w:k*w+lanes], unsafe.Slice(at[T](from, k*ks), lanes))
			}
			continue
		}
		gatherPanel(set, panel, w, from, ls, ks, depth, lanes)
	}
}

// copyPanel packs a full panel whose lanes are adjacent in memory. The widths
// of the kernels have their own loops so that a row moves without a call.
func copyPanel[T Number](panel []T, w int, from unsafe.Pointer, ks, depth int) {
	to := unsafe.Pointer(unsafe.SliceData(panel))
	switch w {
	case 32:
		for k := range depth {
			*(*[32]T)(unsafe.Pointer(at[T](to, k*32))) = *(*[32]T)(unsafe.Pointer(at[T](from, k*ks)))
		}
	case 16:
		for k := range depth {
			*(*[16]T)(unsafe.Pointer(at[T](to, k*16))) = *(*[16]T)(unsafe.Pointer(at[T](from, k*ks)))
		}
	case 12:
		for k := range depth {
			*(*[12]T)(unsafe.Pointer(at[T](to, k*12))) = *(*[12]T)(unsafe.Pointer(at[T](from, k*ks)))
		}
	case 8:
		for k := range depth {
			*(*[8]T)(unsafe.Pointer(at[T](to, k*8))) = *(*[8]T)(unsafe.Pointer(at[T](from, k*ks)))
		}
	default:
		for k := range depth {
			copy(panel[k*w:(k+1)*w], unsafe.Slice(at[T](from, k*ks), w))
		}
	}
}

// gatherPanel packs lanes of any stride, four at a time to keep the number of
// read streams low and the stores adjacent.
func gatherPanel[T Number](set *kernelSet, panel []T, w int, from unsafe.Pointer, ls, ks, depth, lanes int) {
	l := 0
	for ; l+4 <= lanes; l += 4 {
		interleave4(set, panel[l:], w,
			unsafe.Pointer(at[T](from, l*ls)), unsafe.Pointer(at[T](from, (l+1)*ls)),
			unsafe.Pointer(at[T](from, (l+2)*ls)), unsafe.Pointer(at[T](from, (l+3)*ls)), ks, depth)
	}
	for ; l < lanes; l++ {
		interleaveOne(panel[l:], w, unsafe.Pointer(at[T](from, l*ls)), ks, depth)
	}
}

// interleave4 stores dst[k*w+q] = s_q[k*ks] for q < 4.
func interleave4[T Number](set *kernelSet, dst []T, w int, s0, s1, s2, s3 unsafe.Pointer, ks, depth int) {
	to := unsafe.Pointer(&dst[0])
	k := 0
	if ks == 1 && set.transpose4 != nil && depth >= set.runQuantum {
		k = depth - depth%set.runQuantum
		set.transpose4(k, to, w*int(unsafe.Sizeof(dst[0])), s0, s1, s2, s3)
	}
	for ; k < depth; k++ {
		d := (*[4]T)(unsafe.Pointer(at[T](to, k*w)))
		d[0] = *at[T](s0, k*ks)
		d[1] = *at[T](s1, k*ks)
		d[2] = *at[T](s2, k*ks)
		d[3] = *at[T](s3, k*ks)
	}
}

// interleaveOne stores dst[k*w] = s[k*ks], or zeros when s is nil.
func interleaveOne[T Number](dst []T, w int, s unsafe.Pointer, ks, depth int) {
	if s == nil {
		for k := range depth {
			dst[k*w] = 0
		}
		return
	}
	for k := range depth {
		dst[k*w] = *at[T](s, k*ks)
	}
}
