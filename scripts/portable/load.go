//go:build linux

package main

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
)

func load(path string) (*graph.Graph, error) { return graphfile.Load(path, kernels.Lookup) }
