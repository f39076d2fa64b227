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

// Proof shows that no assignment of a problem costs less than a bound. A function is a cost for each combination of
// labels of some variables: a factor of the problem, or a function that the proof creates.
//
// First, labels are pruned, in order. The rest of the proof is a tree whose nodes eliminate variables. To eliminate a
// variable, all functions that depend on the variable are replaced by a message. The message is the minimum of the sum
// of these functions over the variable's labels, as a function of the other variables. A message without variables is a
// constant.
//
// The bound of a node is the sum of its constants, the least bound of its branches (if it branches), and the bounds of
// all its parts. The bound of the solution is the bound of the root plus the factors without variables.
//
// Functions have numbers: first the factors of the problem, then the functions that shifts and steps create on the path
// from the root, in order. Two branches use the same numbers. For example, a problem of two variables with two labels
// each has these factors:
//
//	0  of variable 0:         50 60
//	1  of variable 1:         80 40
//	2  of variables 0 and 1:  0 25 / 25 0
//
// The proof may prune label 0 of variable 1 in favour of label 1: function 1 charges 80-40 = 40 more for it, and
// function 2 saves at most 25 with any label of variable 0. A step then eliminates variable 0 from the bucket {0, 2}.
// The message is function 3, for the remaining label of variable 1: min(50+25, 60+0) = 60. Another step eliminates
// variable 1 from the bucket {1, 3}. This message is the constant 40+60 = 100, which is the bound.
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

// Node shifts costs, cuts labels, eliminates variables, and then splits the remaining problem, if any. If Branches is
// not empty, the problem is split on Variable, with a branch for each remaining label of the variable. Otherwise Parts
// has the connected parts of the problem, in the order of their smallest variable indices. A connected problem has one
// part. The bound of a node with cuts is the smaller of Cutoff and the bound without the cut labels.
type Node struct {
	Shifts   []Shift  `json:"shifts,omitempty" doc:"Costs moved between functions of several variables and functions of one of these variables; applied first."`
	Cutoff   int64    `json:"cutoff,omitzero" doc:"A lower bound for assignments with a cut label."`
	Cuts     []Cut    `json:"cuts,omitempty" doc:"Removed labels, in order."`
	Steps    []Step   `json:"steps,omitempty" doc:"Eliminated variables, in order."`
	Variable int      `json:"variable,omitzero" doc:"The index of the variable that branches split on."`
	Branches []Branch `json:"branches,omitempty" doc:"The remaining problem, for each remaining label of the variable."`
	Parts    []Node   `json:"parts,omitempty" doc:"The remaining problem, divided into independent parts."`
}

// Shift moves costs from functions of several variables to functions of only one of these variables, or back. The sum
// of all functions is unchanged (a reparametrization).
//
// The functions From, which have the same variables, are replaced by one new function with the next number: their sum
// minus the costs in By. After all shifts of a node, each variable that received costs gets a new function. It replaces
// the functions of this variable alone, and is their sum plus the received costs. These functions are numbered in the
// order of the variables. No entry becomes negative, and forbidden entries stay forbidden.
type Shift struct {
	From []int     `json:"from" doc:"The numbers of the functions."`
	By   [][]int64 `json:"by" doc:"by[i][j]: the cost moved to remaining label j of the i-th variable, in ascending order of variables."`
}

// Cut removes a label with which every assignment costs at least [Node.Cutoff]. To check this, functions of the same
// variables are added up. If a sum depends on the variable, only its entries for the label count. The least entries of
// the sums must add up to at least Cutoff. In the example of [Proof], they are 50, 80 and 0 for label 0 of variable 1.
// The label can be cut if Cutoff is at most 130.
type Cut struct {
	Variable int `json:"variable" doc:"The index of the variable."`
	Label    int `json:"label" doc:"The index of the label."`
}

// Branch is the proof for one label of the variable that is split on.
type Branch struct {
	Label int  `json:"label" doc:"The index of the label."`
	Node  Node `json:"node" doc:"The lower bound for assignments with the label."`
}

// Step eliminates a variable. Each function that depends on it is in one of the buckets. There are several buckets if a
// single message would be too large (mini-buckets). A sum of minima is at most the minimum of the sum, so the result is
// still a lower bound.
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
