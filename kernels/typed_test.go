package kernels_test

import (
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPointwiseKernelsFitTheirIterations checks that for all dtypes that a pointwise op infers, its kernel has the
// types of its iteration; the iterator rejects others when the kernel is compiled.
func TestPointwiseKernelsFitTheirIterations(t *testing.T) {
	testsize.Long(t)
	compiled, rejected, step := 0, 0, testsize.Of(11, 1)
	for _, op := range kernels.All() {
		if op.Pointwise == nil || op.Compile == nil {
			continue
		}
		supported := 0
		for _, ex := range op.Examples {
			mixes := dtypeMixes(ex.In)
			for k, metas := range mixes {
				if k%step > 0 && k < len(mixes)-1 {
					continue
				}
				c, err := kerneltest.CallOf(op, ex.Attrs, metas)
				require.NoError(t, err, op.Name)
				res, err := op.Infer(c)
				if err != nil || slices.ContainsFunc(res, func(r graph.Result) bool { return r.Alias >= 0 }) {
					rejected++
					continue
				}
				for _, r := range res {
					c.Out = append(c.Out, r.Meta())
				}
				_, err = op.Compile(c)
				require.NoError(t, err, "%s of %v", op.Name, metas)
				compiled++
				supported++
			}
		}
		assert.Positive(t, supported, op.Name)
	}
	assert.Greater(t, compiled, 5000/step)
	assert.Greater(t, rejected, 1000/step)
}

// dtypeMixes returns the operands with all dtypes: the same for all, and each pair of a dtype for the first operand and
// one for the others.
func dtypeMixes(in []tensor.Meta) (mixes [][]tensor.Meta) {
	for _, d := range tensor.DTypes() {
		for _, e := range tensor.DTypes() {
			if len(in) < 2 && d != e {
				continue
			}
			m := slices.Clone(in)
			for i := range m {
				if m[i].DType == tensor.Invalid {
					continue
				}
				if m[i].DType = e; i == 0 {
					m[i].DType = d
				}
			}
			mixes = append(mixes, m)
		}
	}
	return append(mixes, in)
}
