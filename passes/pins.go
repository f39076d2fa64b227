package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
)

// A pin demands a layout of a value, for example channels last for the result of `conv`. The value that has the name
// `conv` in the plan must then have this layout. The layout pass may let the node write another layout, and give the
// name `conv` to a copy of the result. Only copies may then read the result itself ([uses.checkOnlyCopiesRead]). [Run]
// lists the pins before the first pass (pinsOf) and checks that the final plan meets them (checkPins).

// pinnedValue is a value with a pin that the plan must meet.
type pinnedValue struct {
	name   string // name of the value
	pin    graph.Pin
	isNode bool // a node computes the value; false for an input or a constant
}

// pinsOf lists the values of a graph that are pinned to a layout and that an output depends on.
func pinsOf(g *graph.Graph) (list []pinnedValue) {
	hasPins := slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return n.Pin.SetsLayout() }) ||
		slices.ContainsFunc(slices.Concat(g.Inputs, g.Constants), func(v *graph.Value) bool { return v.Pin.SetsLayout() })
	if !hasPins {
		return nil
	}
	live := liveValues(g)
	g.Values(func(v *graph.Value) {
		if pin := v.EffectivePin(); pin.SetsLayout() && live.At(v) && !v.Dynamic {
			pin.Impl, pin.Device = "", "" // only the layout is checked
			list = append(list, pinnedValue{name: v.Name, pin: pin, isNode: v.Node != nil})
		}
	})
	return list
}

// checkDevicePins returns an error for a pin to a device that the program does not use. Copies and views have no kernel
// on a device: their readers determine their place. They are in the memory of the host only if the program uses no
// device.
func (p *Plan) checkDevicePins() error {
	for _, n := range p.Graph.Nodes {
		pin := graph.Pin{Device: n.Pin.Device}
		isView := n.Op.Identity || n.Op.Kind == graph.View
		switch {
		case pin.Device == "" || p.options.Device == nil && pin.Device == graph.HostDevice:
		case p.options.Device == nil:
			return p.Graph.NodeError(n, pinError(n.Name, pin, "the program uses no device"))
		case isView:
			return p.Graph.NodeError(n, pinError(n.Name, pin, "%s is a copy or a view, whose place follows from its readers",
				n.Op.Name))
		}
	}
	return nil
}

// checkStoragePins returns an error for a pinned input or constant that a copy cannot replace. There are two reasons:
// an op reads the storage of the value, or an output is a view that is possible only on the original value.
func checkStoragePins(g *graph.Graph) error {
	for _, n := range g.Nodes {
		for _, a := range n.In {
			if !n.Op.ReadsStorage || a.Kind != graph.TensorArg {
				continue
			}
			if v := a.Value.Root(); needsCopy(v) && (hasGaps(v) || v.Meta.Offset != 0) {
				return g.NodeError(n, pinError(v.Name, v.EffectivePin(),
					"the node reads the storage of %q, %v, which is not dense from "+
						"the start of its memory: no copy can have the same storage", v.Name, v.Meta))
			}
		}
	}
	for _, output := range g.Outputs {
		isViewWithGaps := !output.EffectivePin().SetsLayout() && hasGaps(output.Value)
		if v := output.Value.Root(); isViewWithGaps && needsCopy(v) && hasGaps(v) {
			return g.OutputError(output, pinError(v.Name, v.EffectivePin(),
				"the output is a view of %q in layout %v: a copy in "+
					"the pinned layout has no such view", v.Name, v.Meta))
		}
	}
	return nil
}

// needsCopy reports whether a value is an input or constant that does not have its pinned layout.
func needsCopy(v *graph.Value) bool {
	pin := v.EffectivePin()
	return v.Node == nil && !pin.Matches(v.Meta)
}

// hasGaps reports whether a value is not dense. A copy of the value has no gaps.
func hasGaps(v *graph.Value) bool { return !v.Meta.IsNonOverlappingAndDense() }

// checkPins returns an error for a pin that the graph does not meet. The node of a pinned value must write the pinned
// layout. If layouts are already chosen, only copies may read an input or constant that does not have its pinned
// layout. Only copies may read the source of a pinned copy, too.
func (p *Plan) checkPins(layoutsChosen bool) error {
	if len(p.pins) == 0 {
		return nil
	}
	uses, valueOf := usesOf(p.Graph), map[string]*graph.Value{} // valueOf: by name
	p.Graph.Values(func(v *graph.Value) { valueOf[v.Name] = v })
	for _, pinned := range p.pins { // the pinned values themselves
		v := valueOf[pinned.name]
		if v == nil {
			if !pinned.isNode { // a folded copy has replaced the input or constant
				continue
			}
			return pinError(pinned.name, pinned.pin, "the plan has no value %q", pinned.name)
		}
		if pinned.pin.Matches(v.Meta) {
			continue
		}
		if v.Node != nil {
			return pinError(pinned.name, pinned.pin, "%q is %v", pinned.name, v.Meta)
		}
		if !layoutsChosen { // the layout pass may still insert a copy
			continue
		}
		if err := uses.checkOnlyCopiesRead(p.Graph, v, pinned.pin, pinned.name); err != nil {
			return err
		}
	}
	for source, pinnedName := range p.pinSources { // the sources of pinned copies
		if valueOf[source.Name] != source {
			continue // no longer in the graph
		}
		if err := uses.checkOnlyCopiesRead(p.Graph, source, p.pinOf(pinnedName), pinnedName); err != nil {
			return err
		}
	}
	return nil
}

// pinOf returns the pin that the value with the given name must meet, or the zero Pin if the value has no pin.
func (p *Plan) pinOf(name string) graph.Pin {
	for _, pinned := range p.pins {
		if pinned.name == name {
			return pinned.pin
		}
	}
	return graph.Pin{}
}

// checkOnlyCopiesRead returns an error if v, which does not meet the pin, has a reader other than a copy to the pinned
// layout.
func (u *uses) checkOnlyCopiesRead(g *graph.Graph, v *graph.Value, pin graph.Pin, name string) error {
	for _, n := range u.readers.At(v) {
		switch {
		case n.Op.RunDynamic != nil && v.Const != nil: // reads only the data
		case n.Op.Identity && n.Pin == pin: // the pinned copy
		case n.Op.Identity && n.Why != "": // an intermediate copy, which a pass inserted
			if err := u.checkOnlyCopiesRead(g, n.Out[0], pin, name); err != nil {
				return err
			}
		default:
			return pinError(name, pin, "%s (%s) reads %q as it is laid out without the pin, %v", n.Name, n.Op.Name, v.Name,
				v.Meta)
		}
	}
	for _, output := range g.Outputs {
		if output.Value == v {
			return pinError(name, pin, "output %q is %q as it is laid out without the pin, %v", output.Name, v.Name, v.Meta)
		}
	}
	return nil
}

// pinError returns the error of a pin that the plan does not meet.
func pinError(name string, pin graph.Pin, format string, args ...any) error {
	return &graph.PinError{Name: name, Pin: pin, Err: fmt.Errorf("not met: "+format, args...)}
}

// setPin sets the pin of the node that computes v, if all results of the node meet the pin.
func (l *layouter) setPin(v *graph.Value, pin graph.Pin) {
	pin.Impl, pin.Device = "", "" // a copy gets only the layout
	if !slices.ContainsFunc(v.Node.Out, func(result *graph.Value) bool { return !pin.Matches(result.Meta) }) {
		v.Node.Pin = pin
	}
}

// recordPinSource records the value that is copied to the pinned value of the given name.
func (l *layouter) recordPinSource(source *graph.Value, pinnedName string) {
	if l.plan.pinSources == nil {
		l.plan.pinSources = map[*graph.Value]string{}
	}
	l.plan.pinSources[source] = pinnedName
}
