// Command decode generates text with a decoder that scripts/decoder.py writes. It always takes the likeliest token.
// Each run writes the keys and values of its token into the caches, which stay in place. The command prints the last
// tokens and the tokens per second.
//
//	go run ./examples/decode -positions 2048 decoder.onnx
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"slices"
	"strings"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

func main() {
	positions := flag.Int("positions", 2048, "capacity of the caches in tokens")
	tokens := flag.Int("tokens", 32, "number of tokens to generate; the last one fills the caches")
	threads := flag.Int("threads", 0, "number of workers; 0: all processors")
	flag.Parse()
	if flag.NArg() != 1 || *tokens < 1 || *tokens > *positions {
		log.Fatal("want the name of a model, and a number of tokens from 1 to the number of positions")
	}
	g, err := graphrun.Load(flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	p, err := graphrun.Compile(g, graphrun.Options{Threads: *threads})
	if err != nil {
		log.Fatal(err)
	}
	generated, times, err := decode(context.Background(), p, g.Inputs, *positions, *tokens)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("tokens:", generated[max(0, len(generated)-8):])
	slices.Sort(times)
	fmt.Printf("%.1f tokens/s (median), %.1f (fastest)\n", 1/times[len(times)/2].Seconds(), 1/times[0].Seconds())
}

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
