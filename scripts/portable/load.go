//go:build linux

package main

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
)

// load reads a graph file with the API of this version. For an older version, scripts/portable.py replaces this file.
func load(path string) (*graph.Graph, error) { return graphfile.Load(path, kernels.Lookup) }
