package expr

import "unsafe"

func andVV[T integer](d, a, b, _ unsafe.Pointer, n int) {
	dst := unsafe.Slice((*T)(d), n)
	x, y := unsafe.Slice((*T)(a), n)[:len(dst)], unsafe.Slice((*T)(b), n)[:len(dst)]
	for i := range dst {
		dst[i] = x[i] & y[i]
	}
}

func orVV[T integer](d, a, b, _ unsafe.Pointer, n int) {
	dst := unsafe.Slice((*T)(d), n)
	x, y := unsafe.Slice((*T)(a), n)[:len(dst)], unsafe.Slice((*T)(b), n)[:len(dst)]
	for i := range dst {
		dst[i] = x[i] | y[i]
	}
}

func xorVV[T integer](d, a, b, _ unsafe.Pointer, n int) {
	dst := unsafe.Slice((*T)(d), n)
	x, y := unsafe.Slice((*T)(a), n)[:len(dst)], unsafe.Slice((*T)(b), n)[:len(dst)]
	for i := range dst {
		dst[i] = x[i] ^ y[i]
	}
}

func notV[T integer](d, a, _, _ unsafe.Pointer, n int) {
	dst := unsafe.Slice((*T)(d), n)
	x := unsafe.Slice((*T)(a), n)[:len(dst)]
	for i := range dst {
		dst[i] = ^x[i]
	}
}

func notBool(d, a, _, _ unsafe.Pointer, n int) {
	dst := unsafe.Slice((*uint8)(d), n)
	x := unsafe.Slice((*uint8)(a), n)[:len(dst)]
	for i := range dst {
		dst[i] = x[i] ^ 1
	}
}

func shlVV[T integer](d, a, b, _ unsafe.Pointer, n int) {
	dst := unsafe.Slice((*T)(d), n)
	x, y := unsafe.Slice((*T)(a), n)[:len(dst)], unsafe.Slice((*T)(b), n)[:len(dst)]
	mask := uint64(8*unsafe.Sizeof(T(0)) - 1)
	for i := range dst {
		dst[i] = x[i] << (uint64(y[i]) & mask)
	}
}

func shrVV[T integer](d, a, b, _ unsafe.Pointer, n int) {
	dst := unsafe.Slice((*T)(d), n)
	x, y := unsafe.Slice((*T)(a), n)[:len(dst)], unsafe.Slice((*T)(b), n)[:len(dst)]
	mask := uint64(8*unsafe.Sizeof(T(0)) - 1)
	for i := range dst {
		dst[i] = x[i] >> (uint64(y[i]) & mask)
	}
}

func eqVV[T realNumber](d, a, b, _ unsafe.Pointer, n int) {
	dst := unsafe.Slice((*bool)(d), n)
	x, y := unsafe.Slice((*T)(a), n)[:len(dst)], unsafe.Slice((*T)(b), n)[:len(dst)]
	for i := range dst {
		dst[i] = x[i] == y[i]
	}
}

func eqVS[T realNumber](d, a, b, _ unsafe.Pointer, n int) {
	dst, y := unsafe.Slice((*bool)(d), n), *(*T)(b)
	x := unsafe.Slice((*T)(a), n)[:len(dst)]
	for i := range dst {
		dst[i] = x[i] == y
	}
}

func neVV[T realNumber](d, a, b, _ unsafe.Pointer, n int) {
	dst := unsafe.Slice((*bool)(d), n)
	x, y := unsafe.Slice((*T)(a), n)[:len(dst)], unsafe.Slice((*T)(b), n)[:len(dst)]
	for i := range dst {
		dst[i] = x[i] != y[i]
	}
}

func neVS[T realNumber](d, a, b, _ unsafe.Pointer, n int) {
	dst, y := unsafe.Slice((*bool)(d), n), *(*T)(b)
	x := unsafe.Slice((*T)(a), n)[:len(dst)]
	for i := range dst {
		dst[i] = x[i] != y
	}
}

func ltVV[T realNumber](d, a, b, _ unsafe.Pointer, n int) {
	dst := unsafe.Slice((*bool)(d), n)
	x, y := unsafe.Slice((*T)(a), n)[:len(dst)], unsafe.Slice((*T)(b), n)[:len(dst)]
	for i := range dst {
		dst[i] = x[i] < y[i]
	}
}

func ltVS[T realNumber](d, a, b, _ unsafe.Pointer, n int) {
	dst, y := unsafe.Slice((*bool)(d), n), *(*T)(b)
	x := unsafe.Slice((*T)(a), n)[:len(dst)]
	for i := range dst {
		dst[i] = x[i] < y
	}
}

func ltSV[T realNumber](d, a, b, _ unsafe.Pointer, n int) {
	dst, x := unsafe.Slice((*bool)(d), n), *(*T)(a)
	y := unsafe.Slice((*T)(b), n)[:len(dst)]
	for i := range dst {
		dst[i] = x < y[i]
	}
}

func leVV[T realNumber](d, a, b, _ unsafe.Pointer, n int) {
	dst := unsafe.Slice((*bool)(d), n)
	x, y := unsafe.Slice((*T)(a), n)[:len(dst)], unsafe.Slice((*T)(b), n)[:len(dst)]
	for i := range dst {
		dst[i] = x[i] <= y[i]
	}
}

func leVS[T realNumber](d, a, b, _ unsafe.Pointer, n int) {
	dst, y := unsafe.Slice((*bool)(d), n), *(*T)(b)
	x := unsafe.Slice((*T)(a), n)[:len(dst)]
	for i := range dst {
		dst[i] = x[i] <= y
	}
}

func leSV[T realNumber](d, a, b, _ unsafe.Pointer, n int) {
	dst, x := unsafe.Slice((*bool)(d), n), *(*T)(a)
	y := unsafe.Slice((*T)(b), n)[:len(dst)]
	for i := range dst {
		dst[i] = x <= y[i]
	}
}

// selectV moves elements of a size, whatever they mean. Both are loaded, so that there is no branch.
func selectV[T uint8 | uint16 | uint32 | uint64](d, a, b, c unsafe.Pointer, n int) {
	dst := unsafe.Slice((*T)(d), n)
	k, x, y := unsafe.Slice((*uint8)(a), n)[:len(dst)], unsafe.Slice((*T)(b), n)[:len(dst)],
		unsafe.Slice((*T)(c), n)[:len(dst)]
	for i := range dst {
		u, v := x[i], y[i]
		if k[i] != 0 {
			v = u
		}
		dst[i] = v
	}
}

func moveV[T uint8 | uint16 | uint32 | uint64](d, a, _, _ unsafe.Pointer, n int) {
	if d != a {
		copy(unsafe.Slice((*T)(d), n), unsafe.Slice((*T)(a), n))
	}
}

func fillV[T uint8 | uint16 | uint32 | uint64](d, a, _, _ unsafe.Pointer, n int) {
	dst, v := unsafe.Slice((*T)(d), n), *(*T)(a)
	for i := range dst {
		dst[i] = v
	}
}

// sizeIndex is the place of an element's size in tables by size: 1, 2, 4, 8 bytes.
func sizeIndex(size int) int {
	switch size {
	case 1:
		return 0
	case 2:
		return 1
	case 4:
		return 2
	}
	return 3
}

var (
	moves   = [4]body{moveV[uint8], moveV[uint16], moveV[uint32], moveV[uint64]}
	fills   = [4]body{fillV[uint8], fillV[uint16], fillV[uint32], fillV[uint64]}
	selects = [4]body{selectV[uint8], selectV[uint16], selectV[uint32], selectV[uint64]}
)
