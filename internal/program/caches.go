package program

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// storeCaches makes a copy of the graph in which the extensions of the caches of the options are stores. It resolves
// the caches that are recognized by their names.
func (p *Program) storeCaches() error {
	if len(p.options.Caches) == 0 {
		return nil
	}
	if p.options.KeepGoing {
		return errors.New("Options.Caches: a program with Options.KeepGoing has no caches, because a failed run could leave " +
			"some of them incomplete")
	}
	g, caches, err := p.withCaches(nil)
	if ones := p.graph.Assumed(); err != nil && len(ones) > 0 { // a capacity may be less than the assumed sizes
		for name := range ones {
			ones[name] = 1
		}
		if smaller, found, errOfOnes := p.withCaches(ones); errOfOnes == nil {
			g, caches, err = smaller, found, nil
		}
	}
	if err != nil {
		return fmt.Errorf("Options.Caches: %w", err)
	}
	p.graph, p.options.Caches = g, caches
	return nil
}

// withCaches returns a copy of the graph in which the caches are stores, and the caches. assumed has other sizes for
// the symbols whose sizes are assumed, or is nil.
func (p *Program) withCaches(assumed map[string]int) (*graph.Graph, []graph.GrowingCache, error) {
	g := p.graph.Clone()
	if err := p.bind(g, assumed); err != nil {
		return nil, nil, err
	}
	for name, n := range assumed {
		g.Assume(name, n)
	}
	if err := g.Infer(); err != nil {
		return nil, nil, err
	}
	caches, err := resolveCaches(g, p.options.Caches)
	if err == nil {
		err = p.checkPinsOfCaches(g, caches)
	}
	if err == nil {
		err = g.StoreCaches(caches)
	}
	return g, caches, err
}

// checkPinsOfCaches returns an error if [Options.Pins] pins the layout of a cache: the result of a run would be a copy
// of the cache. [graph.Graph.ExtensionOf] checks the pins of the graph.
func (p *Program) checkPinsOfCaches(g *graph.Graph, caches []graph.GrowingCache) error {
	for _, c := range caches {
		names := []string{c.Input, c.Output}
		for _, output := range g.Outputs {
			if output.Name == c.Output && output.Value != nil {
				names = append(names, output.Value.Name)
				if output.Value.Node != nil {
					names = append(names, output.Value.Node.Name)
				}
			}
		}
		for _, name := range names {
			if pin := p.options.Pins[name]; pin.SetsLayout() {
				return fmt.Errorf("input %q and output %q have the layout of the cache, but Options.Pins has the pin %v for %q",
					c.Input, c.Output, pin, name)
			}
		}
	}
	return nil
}

// resolveCaches returns the caches that the options name, and those that their names show for an entry without names.
// Axes count from the front.
func resolveCaches(g *graph.Graph, given []graph.GrowingCache) (list []graph.GrowingCache, err error) {
	for _, c := range given {
		found := []graph.GrowingCache{c}
		if c.Input == "" && c.Output == "" {
			if found, err = recognizedCaches(g, c.Capacity); err != nil {
				return nil, err
			}
		}
		for _, c := range found {
			for _, other := range list {
				if other.Input == c.Input || other.Output == c.Output {
					return nil, fmt.Errorf("input %q and output %q: one of them is part of two caches", c.Input, c.Output)
				}
			}
			if v := g.Value(c.Input); v != nil && c.Axis < 0 && c.Axis >= -v.Meta.Rank() {
				c.Axis += v.Meta.Rank()
			}
			list = append(list, c)
		}
	}
	return list, nil
}

// recognizedCaches returns the caches whose inputs and outputs have the names that exporters give them. The keys and
// values of cross-attention do not grow, and are no caches.
func recognizedCaches(g *graph.Graph, capacity int) (list []graph.GrowingCache, err error) {
	for _, v := range g.Inputs {
		output := outputOfPast(g, v.Name)
		isCross := strings.Contains(v.Name, ".encoder.") || strings.Contains(v.Name, "cross")
		if output == "" || isCross {
			continue
		}
		c := graph.GrowingCache{Input: v.Name, Output: output, Capacity: capacity}
		_, extension, err := g.ExtensionOf(c)
		if err != nil {
			return nil, fmt.Errorf("cache %q: %w", v.Name, err)
		}
		c.Axis = extension.Dim
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, errors.New("no input and output have the names of a cache, such as past_key_values.0.key and present.0.key")
	}
	return list, nil
}

// outputOfPast returns the name of the output that extends an input, by the names that exporters give them. It returns
// "" if there is none. These are pairs of names:
//
//	past_key_values.0.key           present.0.key                of optimum and of onnxruntime-genai
//	past_key_values.0.decoder.key   present.0.decoder.key        of optimum
//	past_key_values.0.key           present_key_values.0.key
//	past_0, past_0_key, past.0      present_0, present_0_key, present.0
//	past_key_self_0                 present_key_self_0           of ONNX Runtime's scripts
func outputOfPast(g *graph.Graph, input string) string {
	rest, isPast := strings.CutPrefix(input, "past")
	if !isPast {
		return ""
	}
	names := []string{"present" + rest}
	if rest, ok := strings.CutPrefix(rest, "_key_values"); ok {
		names = append(names, "present"+rest)
	}
	for _, name := range names {
		if slices.ContainsFunc(g.Outputs, func(output graph.Output) bool { return output.Name == name }) {
			return name
		}
	}
	return ""
}

// Caches lists the caches of the program, in which all fields are set. It returns nil if there are none.
func (p *Program) Caches() []graph.GrowingCache {
	if p.Options() == nil {
		return nil
	}
	return slices.Clone(p.options.Caches)
}

// CachesOf returns the inputs of a run in which each cache is in new memory of its capacity. The root package documents
// it.
func (p *Program) CachesOf(in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	made := make(map[string]*tensor.Tensor, len(in))
	for name, t := range in {
		made[name] = t
	}
	for _, c := range p.Caches() {
		given := in[c.Input]
		switch {
		case given == nil:
			return nil, fmt.Errorf("input %q is missing", c.Input)
		case given.Check() != nil:
			return nil, fmt.Errorf("input %q: %w", c.Input, given.Check())
		case c.Axis < 0 || c.Axis >= given.Rank():
			return nil, fmt.Errorf("input %q has %d dimensions, but the cache grows in dimension %d", c.Input, given.Rank(), c.Axis)
		case given.Shape[c.Axis] > c.Capacity:
			return nil, fmt.Errorf("input %q has size %d in dimension %d, but its capacity is %d", c.Input, given.Shape[c.Axis],
				c.Axis, c.Capacity)
		}
		shape := slices.Clone(given.Shape)
		shape[c.Axis] = c.Capacity
		whole := tensor.New(given.DType, shape...)
		if err := whole.Check(); err != nil {
			return nil, fmt.Errorf("input %q: %w", c.Input, err)
		}
		storage, err := allocate(whole)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", c.Input, err)
		}
		meta := whole
		meta.Shape = slices.Clone(given.Shape)
		filled, err := storage.View(meta)
		if err == nil && given.Numel() > 0 {
			err = iter.CopyElements(context.Background(), filled, given, 1)
		}
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", c.Input, err)
		}
		made[c.Input] = filled
	}
	return made, nil
}

// allocate returns a tensor of zeros, or an error if memory is insufficient.
func allocate(meta tensor.Meta) (t *tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err)
	return tensor.Zeros(meta.DType, meta.Shape...), nil
}
