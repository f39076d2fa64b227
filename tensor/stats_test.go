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
