package layout

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// The strategies that are always there. Propagate keeps eager PyTorch's layouts. Contiguous makes
// everything row-major. ChannelsLast gives images their channels last: see [Problem.Image].
var (
	Propagate  Strategy = &wishing{"propagate", func(*Problem, *graph.Value) tensor.Order { return "" }}
	Contiguous Strategy = &wishing{"contiguous", func(_ *Problem, v *graph.Value) tensor.Order {
		return tensor.RowMajorOrder(v.Meta.Rank())
	}}
	ChannelsLast Strategy = &wishing{"channels_last", func(p *Problem, v *graph.Value) tensor.Order {
		if !p.Image(v) {
			return ""
		}
		return lastOrder(v.Meta.Rank())
	}}
)

// Default is the strategy where none is named: on no network that was measured is another one faster than it by more
// than the noise (docs/layouts.md).
func Default() Strategy { return Optimal }

// All returns the strategies that are always there.
func All() []Strategy {
	return []Strategy{Propagate, Contiguous, ChannelsLast, Greedy, Favourite, Push, Optimal}
}

// Named returns a strategy by name; an empty name is that of the default.
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
	return nil, fmt.Errorf("unknown strategy %q: want one of %s", name, strings.Join(names, ", "))
}

// wishing is a strategy that looks at one value at a time. Strategies can be compared, so it is a pointer that is one.
type wishing struct {
	name string
	wish func(p *Problem, v *graph.Value) tensor.Order
}

func (s *wishing) Name() string { return s.name }

func (s *wishing) Choose(p *Problem) (*Assignment, error) {
	return Solve(p, func(v *graph.Value) (tensor.Order, string) {
		o := s.wish(p, v)
		if o == "" {
			return "", ""
		}
		return o, fmt.Sprintf("strategy %s wants %q %v", s.name, v.Name, o)
	})
}
