package main

import (
	"context"
	"strings"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// decode generates tokens at the last positions of the caches, and returns the tokens and the times of their runs. The
// earlier positions of the caches are zeros.
func decode(ctx context.Context, p *graphrun.Program, inputs []*graph.Value, positions, tokens int) (generated []int64,
	times []time.Duration, err error) {
	token, earlierCount := tensor.Zeros(tensor.Int64, 1, 1), tensor.Zeros(tensor.Int32, 1)
	in := map[string]*tensor.Tensor{"tokens": token, "seqlens_k": earlierCount}
	out := map[string]*tensor.Tensor{"next": tensor.Zeros(tensor.Int64, 1, 1)}
	for _, v := range inputs {
		if name, isCache := strings.CutPrefix(v.Name, "past_"); isCache {
			in[v.Name] = tensor.Zeros(v.Meta.DType, 1, v.Meta.Shape[1], positions, v.Meta.Shape[3])
			out["present_"+name] = in[v.Name] // written in place
		}
	}
	for i := range tokens {
		earlierCount.Set(tensor.IntScalar(int64(positions-tokens+i)), 0)
		start := time.Now()
		if err := p.RunInto(ctx, in, out); err != nil {
			return nil, nil, err
		}
		times = append(times, time.Since(start))
		next := out["next"].At(0, 0)
		token.Set(next, 0, 0)
		generated = append(generated, next.Int())
	}
	return generated, times, nil
}
