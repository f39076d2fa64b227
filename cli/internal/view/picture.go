package view

import (
	"github.com/graphrun/graphrun/graph"
)

// boxKind is the kind of a box. The string is also the CSS class of the box.
type boxKind string

const (
	inputBox    boxKind = "input"
	constantBox boxKind = "constant" // a constant that is an output; other constants are in the details of their readers
	stepBox     boxKind = "step"
	viewBox     boxKind = "view"
	copyBox     boxKind = "copy"
	outputBox   boxKind = "output"
	groupBox    boxKind = "group" // a folded group of boxes
	omittedBox  boxKind = "rest"  // stands for the omitted boxes at the border of an excerpt
)

// picture has the boxes and lines of a drawing, without positions. It shows a graph as written, a plan, or two plans
// side by side. For example, the graph y = relu(x) has three boxes and two values:
//
//	boxes:  0: inputBox x    1: stepBox relu    2: outputBox y
//	values: {from: 0, to: [1]}, {from: 1, to: [2]}
//
// The legend has a color for each layout of the values.
type picture struct {
	title   string
	graph   *graph.Graph // the graph that is drawn; nil for an excerpt or two plans
	remarks []string     // sentences below the title
	boxes   []pictureBox
	values  []pictureValue
	legend  []pictureLayout // in the order of first use
}

// pictureBox is an input, an output, a constant, a step, a view, or an inserted copy. It may also stand for a group of
// boxes or for omitted boxes: see boxKind.
type pictureBox struct {
	kind        boxKind
	name        string   // name of the node, input or output
	scope       []string // the scopes of the name, outermost first
	sourceNames []string // names of the nodes and inputs that the box represents, in the graph as written
	values      []string // names of the results
	// signature is the same string for boxes with equal ops, attributes, implementations, types and layouts.
	signature string

	head    string   // the text in bold: the op, or the name of an input or output
	lines   []string // the text below the head
	details []detail
	layout  int    // layout of the first result, as an index of the legend; -1 for none
	why     string // the reason for a copy
	omitted int    // for an omittedBox: the number of omitted operands or readers

	// Fields of a step. The bars have lengths from 0 to 1: a time divided by the longest time of any step.
	predicted    float64 // the predicted time in nanoseconds, which is the cost
	measured     float64 // the measured time in nanoseconds; 0 without --profile
	share        float64 // the cost divided by the total cost of the plan
	predictedBar float64 // length of the bar of the predicted time
	measuredBar  float64 // length of the bar of the measured time

	// Fields for a picture of two plans.
	planIndex int      // 0 for the first plan, 1 for the second plan
	marks     []string // differences from the other plan
	peer      int      // index of the box for the same node, input or output in the other plan; -1 for none
}

// detail is a line in the details of a box. For example, {"reads", "x: float32 [2,3] by [3,1], row-major, 24 B"}
// describes an operand.
type detail struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// pictureValue is a value, drawn as lines from the box that computes the value to the boxes that read it.
type pictureValue struct {
	from   int    // index of the box that computes the value, in picture.boxes
	to     []int  // indices of the boxes that read the value
	layout int    // an index of the legend; -1 for none
	tip    string // the tooltip
}

// pictureLayout is a layout of values in the picture.
type pictureLayout struct {
	name  string
	count int // the number of values with the layout
}
