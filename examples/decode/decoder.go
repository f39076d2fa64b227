package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// decoder continues a text with a model whose inputs past_... and outputs present_... are the keys and values of the
// tokens. The first run is for the whole prompt, and each later run for one token.
//
// A merged model has the input use_cache_branch and an If, whose branches are a model for the prompt and one for later
// tokens. Each branch is a program.
type decoder struct {
	forPrompt *graphrun.Program // the branch for the prompt of a merged model, or nil
	program   *graphrun.Program // for all other runs; it has the caches
	inputs    []*graph.Value
	values    map[string]*tensor.Tensor // the inputs that are not tokens: caches, and what is given
	past      int                       // number of tokens in the caches
	runs      int
}

// useCache is the input of a merged model that selects its branch.
const useCache = "use_cache_branch"

// newDecoder loads and compiles a model. given has inputs that are the same in all runs.
func newDecoder(ctx context.Context, path string, given map[string]*tensor.Tensor, capacity, threads int) (*decoder, error) {
	file, err := graphrun.Loader{}.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	isMerged := slices.ContainsFunc(file.Inputs(), func(v *graph.Value) bool { return v.Name == useCache })
	// compile compiles the model, or the branch of a merged model.
	compile := func(branch bool, options graphrun.Options) (*graphrun.Program, *graph.Graph, error) {
		loader := graphrun.Loader{}
		if isMerged {
			loader.Constants = map[string]tensor.Scalar{useCache: tensor.BoolScalar(branch)}
		}
		g, err := loader.Load(ctx, path)
		if err != nil {
			return nil, nil, err
		}
		options.Threads, options.Hints = threads, []map[string]int{typicalSizes(g, capacity)}
		p, err := graphrun.Compile(ctx, g, options)
		return p, g, err
	}
	d := &decoder{values: map[string]*tensor.Tensor{}}
	if isMerged {
		const promptBranch = false
		if d.forPrompt, _, err = compile(promptBranch, graphrun.Options{}); err != nil {
			return nil, err
		}
	}
	const tokenBranch = true
	p, g, err := compile(tokenBranch, graphrun.Options{Caches: graphrun.RecognizedCaches(capacity)})
	if err != nil {
		return nil, err
	}
	d.program, d.inputs = p, g.Inputs
	if hidden := given["last_hidden_state"]; hidden != nil { // the output of an encoder
		d.values["encoder_hidden_states"] = hidden
	}
	for _, v := range g.Inputs {
		switch {
		case given[v.Name] != nil:
			d.values[v.Name] = given[v.Name]
		case strings.HasPrefix(v.Name, "past"): // no tokens yet
			shape := slices.Clone(v.Meta.Shape)
			for i, dim := range v.Dims {
				if !dim.IsNumber() {
					shape[i] = 0 // of length 0
					if i == 0 {
						shape[i] = 1 // one text
					}
				}
			}
			d.values[v.Name] = tensor.Zeros(v.Meta.DType, shape...)
		}
	}
	if d.values, err = p.CachesOf(d.values); err != nil {
		return nil, err
	}
	return d, nil
}

// typicalSizes returns the sizes for which plans are made: one text, one token at a time, and half of the capacity.
func typicalSizes(g *graph.Graph, capacity int) map[string]int {
	sizes := map[string]int{}
	for _, v := range g.Inputs {
		for i, dim := range v.Dims {
			switch {
			case dim.Symbol == "":
			case i == 0 || strings.HasSuffix(v.Name, "input_ids"):
				sizes[dim.Symbol] = 1
			case strings.HasPrefix(v.Name, "past"):
				sizes[dim.Symbol] = capacity / 2
			case strings.HasSuffix(v.Name, "attention_mask"):
				sizes[dim.Symbol] = capacity/2 + 1
			}
		}
	}
	return sizes
}

// next runs the model for further tokens of the text, and returns the likeliest next token.
func (d *decoder) next(ctx context.Context, tokens []int64) (token int64, err error) {
	count := len(tokens)
	in := map[string]*tensor.Tensor{}
	for _, v := range d.inputs {
		switch {
		case d.values[v.Name] != nil:
			in[v.Name] = d.values[v.Name]
		case strings.HasSuffix(v.Name, "input_ids"):
			in[v.Name] = integers(v, count, func(i int) int64 { return tokens[i] })
		case strings.HasSuffix(v.Name, "attention_mask"):
			in[v.Name] = integers(v, d.past+count, func(int) int64 { return 1 })
		case v.Name == "position_ids" || v.Name == "cache_position":
			in[v.Name] = integers(v, count, func(i int) int64 { return int64(d.past + i) })
		default:
			return 0, fmt.Errorf("the model has input %q, %v: give it with -inputs", v.Name, v.Meta)
		}
	}
	p := d.program
	if d.runs == 0 && d.forPrompt != nil {
		p = d.forPrompt
	}
	out, err := p.Run(ctx, in)
	if err != nil {
		return 0, err
	}
	for _, c := range d.program.Caches() {
		d.values[c.Input] = out[c.Output]
	}
	if p != d.program {
		for _, v := range d.inputs { // the keys and values of the encoder, which stay
			if present := out[strings.Replace(v.Name, "past_key_values", "present", 1)]; present != nil {
				d.values[v.Name] = present
			}
		}
		// Move the results of the prompt to memory of the capacity.
		if d.values, err = d.program.CachesOf(d.values); err != nil {
			return 0, err
		}
	}
	d.past, d.runs = d.past+count, d.runs+1
	token, err = likeliest(out["logits"])
	if err == nil {
		err = out["logits"].Release() // the next run uses its memory
	}
	return token, err
}

// integers returns an input of n integers for one text.
func integers(v *graph.Value, n int, at func(i int) int64) *tensor.Tensor {
	vector := tensor.Zeros(v.Meta.DType, n)
	for i := range n {
		vector.Set(tensor.IntScalar(at(i)), i)
	}
	if v.Meta.Rank() == 1 {
		return vector
	}
	return tensor.Must(vector.View(tensor.New(v.Meta.DType, 1, n)))
}

// likeliest returns the token with the greatest logit of the last row of [1, tokens, vocabulary].
func likeliest(logits *tensor.Tensor) (int64, error) {
	if logits == nil || logits.Rank() != 3 || logits.Numel() == 0 {
		return 0, fmt.Errorf("the model has no output logits of 3 dimensions")
	}
	row, err := logits.Meta.Narrow(1, logits.Shape[1]-1, 1)
	if err != nil {
		return 0, err
	}
	last, err := logits.View(row)
	if err != nil {
		return 0, err
	}
	elements, err := tensor.ToSlice[float32](last.CopyTo(tensor.New(tensor.Float32, row.Shape...)))
	if err != nil {
		return 0, err
	}
	best := 0
	for i, x := range elements {
		if x > elements[best] {
			best = i
		}
	}
	return int64(best), nil
}
