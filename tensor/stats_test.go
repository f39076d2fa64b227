package tensor

import (
	"math"
	"runtime"
	"testing"
)

func TestStats(t *testing.T) {
	v := Zeros(Int32, 3, 700, 2)
	sum := 0.0
	for i := range v.Numel() {
		v.SetFlat(i, IntScalar(int64(i%1000)-10))
		sum += float64(i%1000 - 10)
	}
	turned, err := v.Meta.Transpose(0, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*Tensor{v, Must(v.View(turned))} {
		least, most, mean := x.Stats()
		if least != -10 || most != 989 || mean != sum/4200 {
			t.Errorf("%v: %v, %v, %v", x.Meta, least, most, mean)
		}
	}
	one := Must(FromSlice([]float32{2}))
	if least, most, mean := one.Stats(); least != 2 || most != 2 || mean != 2 {
		t.Errorf("a number: %v, %v, %v", least, most, mean)
	}
	one.SetFlat(0, FloatScalar(math.NaN()))
	if least, _, mean := one.Stats(); !math.IsNaN(least) || !math.IsNaN(mean) {
		t.Errorf("NaN: %v, %v", least, mean)
	}
}

func TestStatsOfExpandedTensors(t *testing.T) {
	v := Must(FromSlice([]float32{1, 2, 6}, 3, 1))
	x, err := v.Expanded([]int{min(1<<40, math.MaxInt), 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	if least, most, mean := x.Stats(); least != 1 || most != 6 || mean != 3 {
		t.Errorf("got %v, %v, %v", least, most, mean)
	}
}

func TestStatsOfOverlappingTensors(t *testing.T) {
	v := Zeros(Float32, 40)
	for i := range 40 {
		v.SetFlat(i, IntScalar(int64(i*i%17)))
	}
	for _, c := range []struct{ shape, strides []int }{{[]int{10, 20}, []int{1, 1}}, {[]int{5, 6, 7}, []int{3, 1, 2}},
		{[]int{3, 30, 2}, []int{0, 1, 1}}, {[]int{9, 1, 25}, []int{1, 5, 1}}} {
		m := Meta{DType: Float32, Shape: c.shape, Strides: c.strides, Offset: 2}
		x := Must(v.View(m))
		least, most, mean := x.Stats()
		low, high, sum := math.Inf(1), math.Inf(-1), 0.0
		all, err := ToSlice[float32](x.CopyTo(New(Float32, c.shape...)))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range all {
			e := float64(v)
			low, high, sum = min(low, e), max(high, e), sum+e
		}
		if least != low || most != high || math.Abs(mean-sum/float64(x.Numel())) > 1e-12 {
			t.Errorf("%v: got %v, %v, %v, want %v, %v, %v", m, least, most, mean, low, high, sum/float64(x.Numel()))
		}
	}
	wide := Must(Zeros(Int8, 1<<21).View(Meta{DType: Int8, Shape: []int{1 << 20, 1 << 20}, Strides: []int{1, 1}}))
	if least, most, mean := wide.Stats(); least != 0 || most != 0 || mean != 0 { // 2^40 elements
		t.Errorf("got %v, %v, %v", least, most, mean)
	}
}

func TestStatsTakeNoMemory(t *testing.T) {
	v := Zeros(Uint8, 1<<10, 1<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	v.Stats()
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 1<<16 {
		t.Errorf("%d bytes were taken", taken)
	}
}
