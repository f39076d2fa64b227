package passes

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/internal/machine"
)

// This file has the explanation of a copy and its text. The text separates the producer, the reader, the cost and the
// advice by semicolons:
//
//	`act` writes (N,H,W,C), as its operand `conv` is stored; `y` is pinned to (N,C,H,W);
//	the copy costs 1.249µs, 5.5% of the plan; to avoid it, remove the pin of `y`

// Sides explains a copy by its two sides: the origin of the layout of the source, and the demand for the new layout.
type Sides struct {
	// SourceReasons leads from the source of the copy back to the node, input or pin that determined its layout.
	// TargetReasons leads from the copy to the reader or output that requires the new layout. Each has one sentence per
	// step.
	SourceReasons, TargetReasons []string
	Producer                     Producer
	Reader                       Reader
	CostNS                       float64
	Share                        float64 // the cost of the copy as a share of the cost of the plan, from 0 to 1
	Advice                       string  // a change by the caller that avoids the copy; empty if none is known
	// Strategy states why the strategy inserted the copy. It is empty if an output, a pin or the reader's implementation
	// requires the layout.
	Strategy string
}

// Producer is the side of a copy's source. Kind is "input", "constant", "pin", "viewed" or "node".
type Producer struct {
	Kind         string
	Name         string // the value that is copied
	Impl         string // for a node whose layout depends on its implementation: the implementation; else empty
	LayoutSource string // the value that the copied value views, or the operand that determines its layout
	Layout       string // such as "(N,H,W,C)": see [Explainer]
	Padded       bool   // the rows of the value are separated by gaps
	// Pinned is set if the node has a pin but writes another layout: the name of the copy that has the pinned layout.
	Pinned string
}

// Reader is the side of a copy's reader. Kind is "output", "pin", "viewed" or "node", and empty if nothing
// reads the copy. A reader of kind "viewed" is a view.
type Reader struct {
	Kind         string
	Name         string // the output, the pinned value, or the node
	Impl         string // for a node whose layouts depend on its implementation: the implementation; else empty
	DecidedBy    string // the later node, output or pin that determines the layout, if the reader does not
	Pin          string // the pin of the node, if it has one
	OtherReaders int    // the number of further readers of the copy
	Layout       string
	Dense        bool // the reader needs the order of the source, without its padding
}

// Kinds of the sides of a copy.
const (
	inputSide    = "input"
	constantSide = "constant"
	outputSide   = "output"
	pinSide      = "pin"    // a pinned value
	viewSide     = "viewed" // a view node, whose result has the layout of its operand
	nodeSide     = "node"   // any other node
)

// String states both sides, the cost and the advice in one sentence, and the strategy's reason in a second sentence.
func (s Sides) String() string {
	parts := []string{s.Producer.String()}
	if readerText := s.Reader.text(); readerText != "" {
		parts = append(parts, readerText)
	}
	cost := "the copy costs " + machine.Nanoseconds(s.CostNS)
	if s.Share > 0 {
		cost += ", " + shareText(s.Share) + " of the plan"
	}
	parts = append(parts, cost)
	if s.Advice != "" {
		parts = append(parts, "to avoid it, "+s.Advice)
	}
	text := strings.Join(parts, "; ")
	if s.Strategy != "" {
		text += ". " + strings.ToUpper(s.Strategy[:1]) + s.Strategy[1:]
	}
	return text
}

// shareText formats a share of the plan's cost.
func shareText(share float64) string {
	if share < 0.001 {
		return "less than 0.1%"
	}
	return fmt.Sprintf("%.1f%%", 100*share)
}

// String describes the layout of a copy's source and its reason.
func (p Producer) String() string {
	layout := p.Layout
	if p.Padded {
		layout += " (padded)"
	}
	name := "`" + p.Name + "`"
	if p.Pinned != "" {
		name = "`" + p.Pinned + "` before its pin"
	}
	switch p.Kind {
	case inputSide, constantSide:
		return fmt.Sprintf("%s %s is stored in %s", p.Kind, name, layout)
	case pinSide:
		return fmt.Sprintf("%s is pinned to %s", name, layout)
	case viewSide:
		return fmt.Sprintf("%s views `%s` in %s", name, p.LayoutSource, layout)
	}
	text := fmt.Sprintf("%s writes %s", withImpl(name, p.Impl), layout)
	if p.LayoutSource != "" {
		text += fmt.Sprintf(", as its operand `%s` is stored", p.LayoutSource)
	}
	return text
}

// text describes the layout that a copy's reader needs; empty if nothing reads the copy.
func (r Reader) text() string {
	layout := r.Layout
	if r.Dense {
		layout = "it dense"
	}
	switch r.Kind {
	case outputSide:
		return fmt.Sprintf("output `%s` keeps the layout of the graph as written, %s", r.Name, r.Layout)
	case pinSide:
		return fmt.Sprintf("`%s` is pinned to %s", r.Name, r.Layout)
	case "":
		return ""
	}
	verb := "needs"
	readers := withImpl("`"+r.Name+"`", r.Impl)
	switch {
	case r.OtherReaders == 1:
		readers, verb = readers+" and 1 other reader", "need"
	case r.OtherReaders > 1:
		readers, verb = fmt.Sprintf("%s and %d other readers", readers, r.OtherReaders), "need"
	}
	text := fmt.Sprintf("%s %s %s", readers, verb, layout)
	if r.Pin != "" {
		text += ", pinned to " + r.Pin
	}
	if r.DecidedBy != "" && r.DecidedBy != r.Name {
		text += fmt.Sprintf(" for `%s`", r.DecidedBy)
	}
	return text
}

// withImpl appends the name of an implementation, if any, to the name of a node.
func withImpl(name, impl string) string {
	if impl == "" {
		return name
	}
	return name + " (" + impl + ")"
}
