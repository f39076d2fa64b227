package wcsp

// Solution is an assignment and what is known of how good it is.
type Solution struct {
	Version int   `json:"version" doc:"The version of the file: 1."`
	Labels  []int `json:"labels" doc:"The label of each variable, by its number among the variable's labels."`
	Cost    int64 `json:"cost" doc:"What the labels cost, in picoseconds."`
	// Bound is what every assignment costs at least.
	Bound int64  `json:"bound" doc:"What every assignment costs at least, in picoseconds."`
	Proof *Proof `json:"proof,omitzero" doc:"Why no assignment costs less than the bound."`
}

// Optimal reports whether no assignment costs less.
func (s *Solution) Optimal() bool { return s.Cost == s.Bound }

// Proof is why no assignment of a problem costs less than a bound.
//
// First labels are pruned, in order. Then a tree follows, whose nodes eliminate variables: the minimum over a
// variable's labels of the sum of all functions that it is in is a function of the other variables, a message, which
// takes the place of those functions. Functions are numbered: first the factors of the problem, then the messages on
// the way from the root, in order. A message without variables is a constant. What a node is worth is the sum of its
// constants, of the least branch and of all parts; what the root is worth, with the factors without variables, is the
// bound.
//
// A node may begin with shifts: a function gives costs to variables of its scope, that is to a function of each of them
// alone, or takes some from there. Sums of all functions stay as they are. Then labels can be cut: where the least
// entries of all functions that have the label, and of those that do not depend on the variable, add up to the cutoff.
// What is below is worth the cutoff at most.
//
// Where one message would be too large the functions of a variable are put into several buckets with a message for
// each. The sum of several minima is at most the minimum of the sum, so that the bound stays one.
type Proof struct {
	Prunings []Pruning `json:"prunings,omitempty" doc:"Labels that no assignment needs, in order."`
	Root     Node      `json:"root" doc:"What all assignments of the labels that are left cost at least."`
}

// Pruning is a label that no assignment needs: whatever labels the other variables have of those that are left, By
// costs no more.
type Pruning struct {
	Variable int `json:"variable" doc:"The number of the variable."`
	Label    int `json:"label" doc:"The number of the label that is taken away."`
	By       int `json:"by" doc:"The number of a label that is left and never costs more."`
}

// Node shifts costs, cuts labels, eliminates variables, and then splits what is left, if anything is: on a variable,
// with a branch for each of its labels, or into parts that have no function in common, ordered by their least
// variables; one part is what is left.
type Node struct {
	Shifts   []Shift  `json:"shifts,omitempty" doc:"Costs that functions give to single variables, before all else."`
	Cutoff   int64    `json:"cutoff,omitzero" doc:"What assignments with one of the labels that are cut cost at least."`
	Cuts     []Cut    `json:"cuts,omitempty" doc:"Labels that are taken away, in order."`
	Steps    []Step   `json:"steps,omitempty" doc:"The variables that are eliminated, in order."`
	Variable int      `json:"variable,omitzero" doc:"The number of the variable that is split on, where there are branches."`
	Branches []Branch `json:"branches,omitempty" doc:"What is left, for each label of the variable that is left."`
	Parts    []Node   `json:"parts,omitempty" doc:"What is left, by parts with nothing in common."`
}

// Shift replaces functions of the same variables, two or more, by their sum less By: a new function, which has the next
// number. After all shifts of a node each variable that was given something has a new function, in the order of the
// variables: all functions of it alone, with what it was given. No cost gets below 0; what is forbidden stays so.
type Shift struct {
	From []int     `json:"from" doc:"The numbers of the functions."`
	By   [][]int64 `json:"by" doc:"What is given to each variable of their scope, in ascending order, by labels left."`
}

// Cut is a label that is taken away.
type Cut struct {
	Variable int `json:"variable" doc:"The number of the variable."`
	Label    int `json:"label" doc:"The number of the label."`
}

// Branch is what holds where the variable of a split has one label.
type Branch struct {
	Label int  `json:"label" doc:"The number of the label."`
	Node  Node `json:"node" doc:"What all assignments with the label cost at least."`
}

// Step eliminates a variable. Each function that it is in is in one of the buckets.
type Step struct {
	Variable int      `json:"variable" doc:"The number of the variable."`
	Buckets  []Bucket `json:"buckets,omitempty" doc:"The functions that the variable is in, and the messages for them."`
}

// Bucket is the functions From and what takes their place, a message: the least sum of theirs over the labels of the
// variable, by the labels that are left of the variables in Scope.
type Bucket struct {
	From  []int `json:"from" doc:"The numbers of the functions."`
	Scope []int `json:"scope" doc:"The numbers of the other variables in the functions, ascending."`
	Table Costs `json:"table" doc:"The message: the least sums, the last variable's labels fastest; null: forbidden."`
}
