package apifuzz

import (
	"context"
	"path/filepath"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
)

// residual is the absolute path of a graph file, because calls run in another folder.
var residual, _ = filepath.Abs("../../examples/models/residual.json")

// compiled returns the zero Program, or a program of a graph, which may have symbols or depend on data.
func (w *world) compiled() *graphrun.Program {
	g := pick(w, []*graph.Graph{small(), symbolic(), dynamic(), nil})
	if g == nil {
		return new(graphrun.Program)
	}
	p, err := graphrun.Compile(context.Background(), g, graphrun.Options{Threads: 1 + w.rng.IntN(2), KeepGoing: w.rng.IntN(2) == 0})
	if err != nil {
		panic(err)
	}
	return p
}

// opened returns an opened graph file, sometimes with wrong sizes.
func (w *world) opened() *graphrun.File {
	f, err := graphrun.Loader{}.Open(context.Background(), residual)
	if err != nil {
		panic(err)
	}
	if w.rng.IntN(2) == 0 {
		f.Loader.Sizes = map[string]int{pick(w, words): w.int()}
	}
	if w.rng.IntN(2) == 0 {
		f.Loader.Shapes = map[string][]int{"image": w.ints()}
	}
	return pick(w, []*graphrun.File{f, f, new(graphrun.File)})
}
