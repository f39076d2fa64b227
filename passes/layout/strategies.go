package layout

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Built-in strategies. Propagate keeps the layouts of eager PyTorch. Contiguous makes every value row-major.
// ChannelsLast makes images channels-last: see [Problem.Image].
var (
	Propagate Strategy = &perValue{name: "propagate",
		doc:            "keeps the layouts of eager PyTorch and drops redundant copies",
		preferredOrder: func(*Problem, *graph.Value) tensor.Order { return "" }}
	Contiguous Strategy = &perValue{name: "contiguous", doc: "makes every value row-major",
		preferredOrder: func(_ *Problem, v *graph.Value) tensor.Order { return tensor.RowMajorOrder(v.Meta.Rank()) }}
	ChannelsLast Strategy = &perValue{name: "channels_last", doc: "makes images channels-last",
		preferredOrder: func(p *Problem, v *graph.Value) tensor.Order {
			if !p.Image(v) {
				return ""
			}
			return channelsLastOrder(v.Meta.Rank())
		}}
)

// Default returns the strategy that is used if the caller names none. In 39 of 40 measurements no other strategy is
// faster by more than the noise (docs/layouts.md).
func Default() Strategy { return Optimal }

// All returns the built-in strategies, followed by the strategies of [Published]. Flags, help, tests and the table of
// docs/layouts.md use this list.
func All() []Strategy {
	return append([]Strategy{Propagate, Contiguous, ChannelsLast, Greedy, Favourite, Push, Optimal}, Published()...)
}

// Named returns the built-in strategy with that name, or the default for an empty name.
func Named(name string) (Strategy, error) {
	if name == "" {
		return Default(), nil
	}
	var names []string
	for _, s := range All() {
		if s.Name() == name {
			return s, nil
		}
		names = append(names, s.Name())
	}
	return nil, fmt.Errorf("strategy %q is unknown: want one of %s", name, strings.Join(names, ", "))
}

// DocOf returns the description of a strategy: the result of its method Doc() string, or "" if it has no such method.
func DocOf(s Strategy) string {
	if d, ok := s.(interface{ Doc() string }); ok {
		return d.Doc()
	}
	return ""
}

// perValue is a strategy that chooses an order for each value separately. Callers use a pointer to it, so that
// strategies are comparable.
type perValue struct {
	name, doc      string
	preferredOrder func(p *Problem, v *graph.Value) tensor.Order // "" if the strategy prefers no order for v
}

// Name implements [Strategy].
func (s *perValue) Name() string { return s.name }

// Doc describes the strategy in one sentence.
func (s *perValue) Doc() string { return s.doc }

// Choose implements [Strategy].
func (s *perValue) Choose(p *Problem) (*Assignment, error) {
	return Solve(p, func(v *graph.Value) (tensor.Order, string) {
		order := s.preferredOrder(p, v)
		if order == "" {
			return "", ""
		}
		return order, fmt.Sprintf("strategy %s prefers %v for this value", s.name, order)
	})
}
