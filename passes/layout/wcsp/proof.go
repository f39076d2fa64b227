package wcsp

// Solution is an assignment with a lower bound on the cost of all assignments.
type Solution struct {
	Version int   `json:"version" doc:"The version of the file: 1."`
	Labels  []int `json:"labels" doc:"The label of each variable, by index into the variable's labels."`
	Cost    int64 `json:"cost" doc:"The cost of the labels, in picoseconds."`
	// Bound is a lower bound on the cost of every assignment.
	Bound int64  `json:"bound" doc:"A lower bound on the cost of every assignment, in picoseconds."`
	Proof *Proof `json:"proof,omitzero" doc:"The proof of the bound."`
}

// Optimal reports whether the cost equals the bound, so that no assignment costs less.
func (s *Solution) Optimal() bool { return s.Cost == s.Bound }

// Proof shows that no assignment of a problem costs less than a bound.
//
// First, labels are pruned, in order. The rest of the proof is a tree whose nodes eliminate variables. To eliminate a
// variable, all functions that depend on the variable are replaced by a message. The message is the minimum of the
// sum of these functions over the variable's labels, as a function of the other variables. A message without
// variables is a constant. Functions have numbers: first the factors of the problem, then the new functions on the
// path from the root, in order. The bound of a node is the sum of its constants, the least bound of its branches, and
// the bounds of all its parts. The bound of the solution is the bound of the root plus the factors without variables.
//
// A node may begin with shifts. A shift moves costs between a function of several variables and functions of only one
// of these variables. The sum of all functions is unchanged (a reparametrization). Then labels may be cut. A label may
// be cut if the least entries of all functions, restricted to the label, add up to at least the cutoff. A node with
// cuts has a bound of at most the cutoff.
//
// If one message would be too large, the functions of a variable are divided into several buckets with a message each
// (mini-buckets). A sum of minima is at most the minimum of the sum, so the result is still a lower bound.
type Proof struct {
	Prunings []Pruning `json:"prunings,omitempty" doc:"Labels that no optimal assignment needs, in order."`
	Root     Node      `json:"root" doc:"The lower bound for assignments of the remaining labels."`
}

// Pruning removes a dominated label: for all remaining labels of the other variables, label By costs at most as much
// as Label.
type Pruning struct {
	Variable int `json:"variable" doc:"The index of the variable."`
	Label    int `json:"label" doc:"The index of the removed label."`
	By       int `json:"by" doc:"The index of a remaining label that never costs more."`
}

// Node shifts costs, cuts labels, eliminates variables, and then splits the remaining problem, if any. It splits either
// on a variable, with a branch for each of its labels, or into one or more connected parts, which are ordered by their
// least variables.
type Node struct {
	Shifts   []Shift  `json:"shifts,omitempty" doc:"Costs moved between functions of several variables and functions of one of these variables; applied first."`
	Cutoff   int64    `json:"cutoff,omitzero" doc:"A lower bound for assignments with a cut label."`
	Cuts     []Cut    `json:"cuts,omitempty" doc:"Removed labels, in order."`
	Steps    []Step   `json:"steps,omitempty" doc:"Eliminated variables, in order."`
	Variable int      `json:"variable,omitzero" doc:"The index of the variable that branches split on."`
	Branches []Branch `json:"branches,omitempty" doc:"The remaining problem, for each remaining label of the variable."`
	Parts    []Node   `json:"parts,omitempty" doc:"The remaining problem, divided into independent parts."`
}

// Shift replaces functions of the same two or more variables by their sum minus By, as a new function with the next
// number. After all shifts of a node, each variable that received costs has one new function, in the order of the
// variables: the sum of its single-variable functions and the costs received. No cost becomes negative, and forbidden
// entries stay forbidden.
type Shift struct {
	From []int     `json:"from" doc:"The numbers of the functions."`
	By   [][]int64 `json:"by" doc:"Costs moved to each variable of the scope, ascending, by remaining label."`
}

// Cut removes a label.
type Cut struct {
	Variable int `json:"variable" doc:"The index of the variable."`
	Label    int `json:"label" doc:"The index of the label."`
}

// Branch is the proof for one label of the variable that is split on.
type Branch struct {
	Label int  `json:"label" doc:"The index of the label."`
	Node  Node `json:"node" doc:"The lower bound for assignments with the label."`
}

// Step eliminates a variable. Each function that depends on it is in one of the buckets.
type Step struct {
	Variable int      `json:"variable" doc:"The index of the variable."`
	Buckets  []Bucket `json:"buckets,omitempty" doc:"The functions of the variable, and the messages that replace them."`
}

// Bucket holds functions and the message that replaces them: the minimum of their sum over the labels of the variable,
// by the remaining labels of the variables in Scope.
type Bucket struct {
	From  []int `json:"from" doc:"The numbers of the functions."`
	Scope []int `json:"scope" doc:"The indices of the other variables of the functions, ascending."`
	Table Costs `json:"table" doc:"The message, row-major over Scope; null: forbidden."`
}
