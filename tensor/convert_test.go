package tensor_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/tensor"
)

func TestConversionsAgreeWithPyTorch(t *testing.T) {
	pairs := 0
	for _, r := range load[[4]string](t, "convert.json") {
		pairs++
		s, d := dtype(t, r[0]), dtype(t, r[1])
		src, want := raw(t, r[2]), raw(t, r[3])
		n := len(src) / s.Size()
		if bareFromNegative(s, d) {
			zeroNegative(src, s)
		}
		got := make([]byte, n*d.Size())
		tensor.Converter(d, s)(unsafe.Pointer(&got[0]), unsafe.Pointer(&src[0]), d.Size(), s.Size(), n)
		for i := range n {
			g, w := got[i*d.Size():(i+1)*d.Size()], want[i*d.Size():(i+1)*d.Size()]
			if !bytes.Equal(g, w) {
				t.Errorf("%v to %v: value %d (% x) gives % x, want % x", s, d, i, src[i*s.Size():(i+1)*s.Size()], g, w)
			}
		}
		// The same with strided and reversed elements, to show that strides are bytes.
		spread := make([]byte, 3*len(got))
		tensor.Converter(d, s)(unsafe.Pointer(&spread[0]), unsafe.Pointer(&src[(n-1)*s.Size()]), 3*d.Size(), -s.Size(), n)
		for i := range n {
			if g, w := spread[3*i*d.Size():][:d.Size()], want[(n-1-i)*d.Size():][:d.Size()]; !bytes.Equal(g, w) {
				t.Errorf("%v to %v, strided: value %d gives % x, want % x", s, d, i, g, w)
			}
		}
	}
	if pairs != 15*15 {
		t.Errorf("%d pairs of dtypes, want all 225", pairs)
	}
}

// bareFromNegative holds the pairs for which gen.py writes 0 for negative values: C leaves their conversion
// to unsigned undefined.
func bareFromNegative(s, d tensor.DType) bool {
	return d.IsBareUnsigned() && (s.IsFloat() || s.IsComplex())
}

func zeroNegative(src []byte, s tensor.DType) {
	for i := 0; i < len(src); i += s.Size() {
		var f float64
		tensor.Converter(tensor.Float64, s)(unsafe.Pointer(&f), unsafe.Pointer(&src[i]), 0, 0, 1)
		if f < 0 {
			clear(src[i : i+s.Size()])
		}
	}
}

type halvesRow struct {
	HalfSHA string `json:"half_sha256"`
	BF16SHA string `json:"brain_sha256"`
	Floats  string
	Half    string
	BF16    string `json:"brain"`
}

// digest hashes float32 bits; all NaNs count as equal.
func digest(f func(uint16) float32) string {
	h := sha256.New()
	var b [4]byte
	for i := range 1 << 16 {
		v := f(uint16(i))
		bits := math.Float32bits(v)
		if v != v {
			bits = 0x7fc00000
		}
		binary.LittleEndian.PutUint32(b[:], bits)
		h.Write(b[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

func TestHalvesAgreeWithPyTorch(t *testing.T) {
	r := load[halvesRow](t, "halves.json")[0]
	if digest(func(i uint16) float32 { return tensor.Half(i).Float32() }) != r.HalfSHA {
		t.Error("some float16 is not PyTorch's float32")
	}
	if digest(func(i uint16) float32 { return tensor.BF16(i).Float32() }) != r.BF16SHA {
		t.Error("some bfloat16 is not PyTorch's float32")
	}
	floats, half, bf16 := raw(t, r.Floats), raw(t, r.Half), raw(t, r.BF16)
	for i := range len(floats) / 4 {
		bits := binary.LittleEndian.Uint32(floats[4*i:])
		f := math.Float32frombits(bits)
		if got, want := tensor.HalfOf(f), binary.LittleEndian.Uint16(half[2*i:]); uint16(got) != want {
			t.Errorf("HalfOf(%v, %#x) = %#x, want %#x", f, bits, got, want)
		}
		if got, want := tensor.BF16Of(f), binary.LittleEndian.Uint16(bf16[2*i:]); uint16(got) != want {
			t.Errorf("BF16Of(%v, %#x) = %#x, want %#x", f, bits, got, want)
		}
	}
}

func TestHalvesRoundTrip(t *testing.T) {
	for i := range 1 << 16 {
		h, b := tensor.Half(i), tensor.BF16(i)
		if f := h.Float32(); f != f {
			if g := tensor.HalfOf(f).Float32(); g == g {
				t.Fatalf("float16 %#x is NaN and comes back as %v", i, g)
			}
		} else if tensor.HalfOf(f) != h {
			t.Fatalf("float16 %#x comes back as %#x", i, tensor.HalfOf(f))
		}
		if f := b.Float32(); f != f {
			if tensor.BF16Of(f) != 0x7fc0 {
				t.Fatalf("bfloat16 NaN %#x comes back as %#x", i, tensor.BF16Of(f))
			}
		} else if tensor.BF16Of(f) != b {
			t.Fatalf("bfloat16 %#x comes back as %#x", i, tensor.BF16Of(f))
		}
	}
}

// TestCopyKeepsValuesInAnyLayout copies between layouts and compares in logical order.
func TestCopyKeepsValuesInAnyLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMeta(t).WithDType(tensor.Int32)
		src := tensor.Empty(m)
		n := int32(0)
		m.Walk(func(at int) {
			*(*int32)(unsafe.Add(src.Pointer(), 4*at)) = n
			n++
		})
		want, err := tensor.ToSlice[int32](src)
		if err != nil {
			t.Fatal(err)
		}
		dense := tensor.Meta{DType: tensor.Float64, Shape: m.Shape, Strides: tensor.DenseStrides(m.Shape, m.Strides)}
		got, err := tensor.ToSlice[float64](src.CopyTo(dense))
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d values, want %d: %v", len(got), len(want), err)
		}
		for i := range got {
			if got[i] != float64(want[i]) {
				t.Fatalf("%v to %v: element %d is %v, want %d", m, dense, i, got[i], want[i])
			}
		}
	})
}
