// Command embeddings makes a model of sentence embeddings from an exported encoder of texts. It appends the mean over
// the tokens and the normalization to the graph, so that clients send token ids and get vectors of length 1.
//
//	go run ./examples/embeddings encoder.onnx embedder.json
//	graphrun serve embedder.json
//	examples/client.py http://127.0.0.1:8000 embedder tokens.npz vectors.npz
//
// The encoder has the int64 inputs input_ids and attention_mask, both [N, L], and the output last_hidden_state,
// [N, L, H], as exporters of BERT and its relatives write them. It may have further inputs.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/safetensors"
	"github.com/graphrun/graphrun/tensor"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: embeddings ENCODER OUT.json")
	}
	if err := convert(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// convert reads an encoder, and writes a graph with the embeddings of sentences as its only output: a graph file and
// the file of its weights.
func convert(encoder, path string) error {
	g, err := graphrun.Load(context.Background(), encoder)
	if err != nil {
		return err
	}
	if err := pool(g); err != nil {
		return fmt.Errorf("%s: %w", encoder, err)
	}
	isWeight := func(v *graph.Value) bool { return v.Meta.Numel() > maxInline }
	name := filepath.Base(path)
	weights := strings.TrimSuffix(name, filepath.Ext(name)) + ".safetensors"
	return graphfile.SaveFile(path, g, graphfile.SideFile(weights, isWeight, writeWeights))
}

// maxInline is the maximum number of elements of a constant in the graph file itself. Larger constants are in the file
// of weights, which is binary and loads faster.
const maxInline = 64

func writeWeights(path string, names []string, data []*tensor.Tensor) error {
	entries := make([]safetensors.Entry, len(names))
	for i, name := range names {
		entries[i] = safetensors.Entry{Name: name, Tensor: data[i]}
	}
	return safetensors.WriteFile(path, entries, nil)
}

// pool replaces the outputs of an encoder by the output embedding, [N, H]: the mean of the vectors of all tokens whose
// mask is 1, divided by its Euclidean norm.
func pool(g *graph.Graph) error {
	var mask, states *graph.Value
	for _, v := range g.Inputs {
		if v.Name == "attention_mask" {
			mask = v
		}
	}
	for _, output := range g.Outputs {
		if output.Name == "last_hidden_state" {
			states = output.Value
		}
	}
	if mask == nil || states == nil {
		return fmt.Errorf("want an encoder with the input attention_mask and the output last_hidden_state")
	}
	weights := op.Unsqueeze(op.To(mask, op.ToAttrs{DType: tensor.Float32}), -1) // [N, L, 1]
	sum := op.Sum(op.Mul(states, weights), op.SumAttrs{Dim: []int{1}})
	count := op.ClampMin(op.Sum(weights, op.SumAttrs{Dim: []int{1}}), 1) // a text without tokens gives zeros
	g.Outputs = nil
	g.Output("embedding", op.Normalize(op.Div(sum, count)))
	return g.Err()
}
