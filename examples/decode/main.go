// Command decode generates text with a decoder, and prints the tokens as they are generated. It always takes the
// likeliest token. Each run writes the keys and values of its tokens into the caches, which stay in place.
//
//	go run ./examples/decode -prompt 1,15043,3186 -capacity 2048 -tokens 32 model.onnx
//
// README.md says which models it reads.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

func main() {
	capacity := flag.Int("capacity", 2048, "capacity of the caches in tokens")
	tokens := flag.Int("tokens", 32, "number of tokens to generate")
	prompt := flag.String("prompt", "1", "numbers of the tokens with which the text begins, separated by commas")
	end := flag.Int64("end", -1, "token that ends the text; -1: none")
	inputs := flag.String("inputs", "", "npz file with further inputs of the model, such as encoder_hidden_states")
	positions := flag.Int("positions", 0, "for models of scripts/decoder.py: capacity of the caches, of which the last tokens "+
		"are generated; the other positions are zeros")
	threads := flag.Int("threads", 0, "number of workers; 0: all processors")
	flag.Parse()
	if flag.NArg() != 1 || *tokens < 1 {
		log.Fatal("want the name of a model, and a positive number of tokens")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var times []time.Duration
	var err error
	if *positions > 0 {
		times, err = decodeFixed(ctx, flag.Arg(0), *positions, *tokens, *threads)
	} else {
		times, err = stream(ctx, flag.Arg(0), *inputs, *prompt, *end, *capacity, *tokens, *threads)
	}
	if err != nil {
		log.Fatal(err)
	}
	if len(times) > 0 {
		slices.Sort(times)
		fmt.Printf("%.1f tokens/s (median), %.1f (fastest)\n", 1/times[len(times)/2].Seconds(), 1/times[0].Seconds())
	}
}

// decodeFixed generates tokens with a model of scripts/decoder.py.
func decodeFixed(ctx context.Context, path string, positions, tokens, threads int) ([]time.Duration, error) {
	if tokens > positions {
		return nil, fmt.Errorf("%d tokens do not fit into %d positions", tokens, positions)
	}
	g, err := graphrun.Load(ctx, path)
	if err != nil {
		return nil, err
	}
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Threads: threads})
	if err != nil {
		return nil, err
	}
	generated, times, err := decode(ctx, p, g.Inputs, positions, tokens)
	if err == nil {
		fmt.Println("tokens:", generated[max(0, len(generated)-8):])
	}
	return times, err
}

// stream prints the tokens that follow the prompt, and returns the time of each run after the first one.
func stream(ctx context.Context, path, inputsPath, prompt string, end int64, capacity, tokens, threads int) (
	times []time.Duration, err error) {
	var text []int64
	for number := range strings.SplitSeq(prompt, ",") {
		token, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("-prompt: %w", err)
		}
		text = append(text, token)
	}
	var given map[string]*tensor.Tensor
	if inputsPath != "" {
		if given, err = npz.ReadFile(inputsPath); err != nil {
			return nil, err
		}
	}
	d, err := newDecoder(ctx, path, given, capacity, threads)
	if err != nil {
		return nil, err
	}
	for range tokens {
		start := time.Now()
		token, err := d.next(ctx, text)
		if err != nil {
			return nil, err
		}
		if d.runs > 1 {
			times = append(times, time.Since(start))
		}
		fmt.Print(token, " ")
		if token == end {
			break
		}
		text = []int64{token}
	}
	fmt.Println()
	return times, nil
}
