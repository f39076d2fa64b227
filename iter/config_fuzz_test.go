package iter_test

import (
	"context"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// draw hands out small numbers from fuzzed bytes; it ends in zeros.
type draw struct{ b []byte }

func (d *draw) n(limit int) int {
	if len(d.b) == 0 {
		return 0
	}
	v := int(d.b[0]) % limit
	d.b = d.b[1:]
	return v
}

func (d *draw) flag() bool { return d.n(2) == 1 }

func (d *draw) meta() tensor.Meta {
	m := tensor.Meta{DType: tensor.DTypes()[d.n(15)], Offset: d.n(4)}
	for range d.n(5) {
		m.Shape = append(m.Shape, []int{1, 2, 3, 0, 5}[d.n(5)])
		m.Strides = append(m.Strides, []int{1, 0, 2, 3, 6, 15, 30}[d.n(7)])
	}
	return m
}

func (d *draw) operand(out bool) iter.Operand {
	switch d.n(6) {
	case 0:
		if out {
			return iter.UndefinedOutput()
		}
		return iter.NumberOperand([]tensor.Scalar{tensor.IntScalar(3), tensor.FloatScalar(0.5), tensor.BoolScalar(true),
			tensor.ComplexScalar(1i)}[d.n(4)])
	case 1:
		if out {
			return iter.UndefinedOutputOf(tensor.DTypes()[d.n(15)])
		}
	case 2:
		o := iter.OperandOfTensor(tensor.Empty(d.meta()))
		for range o.Type.Shape {
			if d.flag() {
				return o
			}
		}
		return o.Named(slices.Repeat([]string{""}, len(o.Type.Shape))...)
	}
	return iter.OperandOfTensor(tensor.Empty(d.meta()))
}

func (d *draw) config() iter.Config {
	c := iter.New()
	for range d.n(3) {
		c = c.Output(d.operand(true))
	}
	for range d.n(4) {
		c = c.Input(d.operand(false))
	}
	if d.flag() {
		c = c.StaticShape(d.n(4), d.n(4))
	}
	if d.flag() {
		c = c.StaticDType(tensor.DTypes()[d.n(15)])
	}
	if d.flag() {
		c = c.CastInputs(tensor.DTypes()[d.n(15)])
	}
	return c.CheckMemOverlap(!d.flag()).AllowCPUScalars(d.flag()).IsReduction(d.flag()).ResizeOutputs(!d.flag()).
		CheckAllSameDType(!d.flag()).EnforceSafeCastingToOutput(d.flag()).EnforceLinearIteration(d.flag()).
		PromoteInputsToCommonDType(d.flag()).PromoteIntegerInputsToFloat(d.flag()).CastCommonDTypeToOutputs(d.flag()).
		OpMath(d.flag()).FastSetup(!d.flag())
}

// Any configuration is refused with an error, or gives an iteration that stays within its
// operands and walks as many elements as it says.
func FuzzConfig(f *testing.F) {
	f.Add([]byte{1, 0, 2, 3, 8, 0, 2, 1, 1, 0, 0, 3, 8, 0, 1, 2, 1})
	f.Add([]byte{2, 0, 1, 4, 3, 3, 4, 0, 4, 1, 2, 1, 2, 4, 1, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		d := &draw{b}
		it, err := d.config().Build()
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.NotEmpty(t, it.String()+it.Explain())
		ts := make([]*tensor.Tensor, it.Len())
		for i := range ts {
			m := it.Meta(i)
			require.NoError(t, m.Check())
			ts[i] = tensor.Empty(m)
		}
		ptrs, err := it.Bind(ts...)
		require.NoError(t, err)
		walkWithin(t, it, ptrs, ts)
		if _, err := it.RunReduce(context.Background(), 2, intSum); err != nil {
			require.NotEmpty(t, err.Error())
		}
	})
}

func walkWithin(t *testing.T, it *iter.Iterator, ptrs []unsafe.Pointer, ts []*tensor.Tensor) {
	seen := 0
	require.NoError(t, it.ForEach(ptrs, func(p []unsafe.Pointer, st []int, rowLen, rowCount int) error {
		seen += rowLen * rowCount
		for i := range p {
			common := it.CommonDType()
			if it.DType(i) != ts[i].DType || common != tensor.Invalid && common != ts[i].DType {
				continue // a converted or rounded copy, in memory of the walk
			}
			base, size := uintptr(ts[i].Pointer()), ts[i].DType.Size()
			far := uintptr(p[i]) + uintptr((rowLen-1)*st[i]+(rowCount-1)*st[len(p)+i]+size)
			require.GreaterOrEqual(t, uintptr(p[i]), base)
			require.LessOrEqual(t, far, base+uintptr(ts[i].Storage().Len()-ts[i].Offset*size))
		}
		return nil
	}))
	require.Equal(t, it.Numel(), seen)
	seen = 0
	if it.Numel() == 0 {
		return
	}
	require.NoError(t, iter.EachBlock(it, ptrs, func(n int) error {
		seen += n
		return nil
	}))
	require.Equal(t, it.Numel(), seen)
}
