package verify

import (
	"fmt"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// This file checks the tree of a proof (see [wcsp.Proof]): eliminations of variables, splits into branches by the
// labels of a variable, and independent parts. A node may first shift costs between functions, and cut labels that only
// assignments of cost Cutoff or more have. An elimination replaces each bucket of functions by a message: the minimum
// of their sum over the labels of the variable. A checker has the functions by number (functions) and the labels of
// each variable that are not removed (remainingLabels). Long loops call countSteps, which checks the context.
//
// For example, a proof of a problem with the functions 0 = f(a,v), 1 = g(v) and 2 = h(a) may eliminate v from the
// bucket {0, 1}. Its message is function 3, m(a) = min over v of f(a,v) + g(v), and the functions of a are now 2 and 3.
// If a is eliminated from the bucket {2, 3}, the message is a constant, which is the bound.

// functionsByVariable maps each variable that is not eliminated to the numbers of the functions that depend on it.
type functionsByVariable map[int][]int

// checkRoot returns the bound that the proof proves.
func (c *checker) checkRoot(rootNode *wcsp.Node) (int64, error) {
	var constant int64
	functionsOf := functionsByVariable{}
	for v := range c.remainingLabels {
		functionsOf[v] = nil
	}
	for i, f := range c.functions {
		if len(f.scope) == 0 {
			constant = add(constant, f.table[0])
		}
		for _, v := range f.scope {
			functionsOf[v] = append(functionsOf[v], i)
		}
	}
	bound, err := c.checkNode(rootNode, functionsOf)
	return add(constant, bound), err
}

// checkNode checks a node and returns its bound: the sum of its constants, plus the least bound of its branches or the
// sum of the bounds of its parts. It modifies functionsOf. At its end, it removes the functions that it added, and
// restores the labels that it cut: functions and cuts are valid only within this node and its descendants.
func (c *checker) checkNode(node *wcsp.Node, functionsOf functionsByVariable) (int64, error) {
	functionCount := len(c.functions)
	defer func() { c.functions = c.functions[:functionCount] }()
	if err := c.applyShifts(node.Shifts, functionsOf); err != nil {
		return 0, err
	}
	if len(node.Cuts) > 0 {
		remainingLabels := slices.Clone(c.remainingLabels)
		defer func() { c.remainingLabels = remainingLabels }()
		if err := c.applyCuts(node.Cuts, node.Cutoff, functionsOf); err != nil {
			return 0, err
		}
	}
	var bound int64
	for i := range node.Steps {
		constantSum, err := c.checkStep(&node.Steps[i], functionsOf)
		if err != nil {
			return 0, fmt.Errorf("variable %d: %w", node.Steps[i].Variable, err)
		}
		bound = add(bound, constantSum)
	}
	var childBound int64
	var err error
	switch {
	case len(node.Branches) > 0 && len(node.Parts) > 0:
		err = fmt.Errorf("a node has branches and parts")
	case len(node.Branches) > 0:
		childBound, err = c.checkSplit(node, functionsOf)
	case len(node.Parts) > 0:
		childBound, err = c.checkParts(node.Parts, functionsOf)
	case len(functionsOf) > 0:
		err = fmt.Errorf("variable %d is never eliminated", slices.Min(slices.Collect(maps.Keys(functionsOf))))
	}
	bound = add(bound, childBound)
	if len(node.Cuts) > 0 { // an assignment with a cut label costs at least Cutoff
		bound = min(bound, node.Cutoff)
	}
	return bound, err
}

// checkStep checks the elimination of a variable and returns the sum of the resulting constants. The messages of the
// buckets replace the functions that depend on the variable.
func (c *checker) checkStep(step *wcsp.Step, functionsOf functionsByVariable) (int64, error) {
	eliminated := step.Variable
	dependents, remains := functionsOf[eliminated]
	if !remains {
		return 0, fmt.Errorf("the variable was eliminated before")
	}
	if err := checkBuckets(step.Buckets, dependents); err != nil {
		return 0, err
	}
	c.removeVariable(eliminated, functionsOf)
	var constantSum int64
	for i := range step.Buckets {
		bucket := &step.Buckets[i]
		if err := c.checkMessage(eliminated, bucket); err != nil {
			return 0, fmt.Errorf("bucket %d: %w", i, err)
		}
		message := function{scope: bucket.Scope, table: bucket.Table}
		for _, other := range bucket.Scope {
			message.labels = append(message.labels, c.remainingLabels[other])
			functionsOf[other] = append(functionsOf[other], len(c.functions))
		}
		if len(bucket.Scope) == 0 {
			constantSum = add(constantSum, bucket.Table[0])
		}
		c.functions = append(c.functions, message)
	}
	return constantSum, nil
}

// removeVariable removes a variable and all functions that depend on it.
func (c *checker) removeVariable(eliminated int, functionsOf functionsByVariable) {
	for _, functionIndex := range functionsOf[eliminated] {
		for _, other := range c.functions[functionIndex].scope {
			if other != eliminated {
				c.countSteps(len(functionsOf[other]))
				functionsOf[other] = slices.DeleteFunc(functionsOf[other], func(dependent int) bool {
					return dependent == functionIndex
				})
			}
		}
	}
	delete(functionsOf, eliminated)
}

// checkBuckets checks that each of the functions that depend on a variable is in exactly one bucket.
func checkBuckets(buckets []wcsp.Bucket, dependents []int) error {
	unused := map[int]bool{}
	for _, functionIndex := range dependents {
		unused[functionIndex] = true
	}
	for _, bucket := range buckets {
		for _, functionIndex := range bucket.From {
			if !unused[functionIndex] {
				return fmt.Errorf("function %d does not depend on the variable, or was used before", functionIndex)
			}
			unused[functionIndex] = false
		}
	}
	for _, functionIndex := range dependents {
		if unused[functionIndex] {
			return fmt.Errorf("function %d depends on the variable but is in no bucket", functionIndex)
		}
	}
	return nil
}

// checkMessage checks the message of a bucket of the eliminated variable, entry by entry.
func (c *checker) checkMessage(eliminated int, bucket *wcsp.Bucket) error {
	if len(bucket.From) == 0 {
		return fmt.Errorf("the bucket has no functions")
	}
	var scope []int
	for _, functionIndex := range bucket.From {
		scope = append(scope, c.functions[functionIndex].scope...)
	}
	slices.Sort(scope)
	scope = slices.DeleteFunc(slices.Compact(scope), func(other int) bool { return other == eliminated })
	if !slices.Equal(scope, bucket.Scope) {
		return fmt.Errorf("the functions of the bucket depend on variables %v, not %v", scope, bucket.Scope)
	}
	size := 1
	for _, other := range scope {
		if size *= len(c.remainingLabels[other]); size > len(bucket.Table) {
			break // before size overflows
		}
	}
	if size != len(bucket.Table) {
		return fmt.Errorf("the %d entries of the message do not match the remaining labels", len(bucket.Table))
	}
	i := 0 // index of the next entry
	return c.forEachMinimum(bucket.From, scope, eliminated, func(least int64) error {
		if bucket.Table[i] != least {
			return fmt.Errorf("entry %d is %d, not %d", i, bucket.Table[i], least)
		}
		i++
		return nil
	})
}

// term is a function in a sum.
type term struct {
	table             []int64
	index             int     // current index into table, without the offset for the eliminated variable
	scopeOffsets      [][]int // [i][label]: index offset for variable i of the scope; [i] is nil if the function lacks it
	eliminatedOffsets []int   // index offset of each label of the eliminated variable
}

// forEachMinimum adds up the functions with the given indices, and minimizes the sum over the labels of the
// eliminated variable. It calls visit with the minimum for each combination of labels of the scope, in row-major order.
func (c *checker) forEachMinimum(functionIndices, scope []int, eliminated int, visit func(least int64) error) error {
	terms := make([]term, len(functionIndices))
	for i, functionIndex := range functionIndices {
		terms[i] = c.term(&c.functions[functionIndex], scope)
	}
	sums := make([]int64, len(c.remainingLabels[eliminated]))
	return c.forEachEntry(terms, scope, func([]int) error {
		clear(sums)
		c.countSteps(len(sums) * len(terms))
		for i := range terms {
			term := &terms[i]
			for label, offset := range term.eliminatedOffsets {
				sums[label] = add(sums[label], term.table[term.index+offset])
			}
		}
		return visit(slices.Min(sums))
	})
}

// forEachEntry calls visit for each combination of labels of a scope, in row-major order. Before each call it sets the
// index of each term to the entry for these labels. labels are indices in remainingLabels.
func (c *checker) forEachEntry(terms []term, scope []int, visit func(labels []int) error) error {
	labels := make([]int, len(scope))
	for {
		c.countSteps(1 + len(terms) + len(scope))
		if err := visit(labels); err != nil {
			return err
		}
		if !c.nextEntry(terms, scope, labels) {
			return nil
		}
	}
}

// nextEntry changes labels to the next combination in row-major order, and the index of each term to its entry. It
// returns false after the last combination.
func (c *checker) nextEntry(terms []term, scope, labels []int) bool {
	for position := len(scope) - 1; position >= 0; position-- {
		oldLabel := labels[position]
		labels[position] = (oldLabel + 1) % len(c.remainingLabels[scope[position]])
		for i := range terms {
			if offsets := terms[i].scopeOffsets[position]; offsets != nil {
				terms[i].index += offsets[labels[position]] - offsets[oldLabel]
			}
		}
		if labels[position] > 0 { // the label is not the first again, so the labels before it remain
			return true
		}
	}
	return false
}

// term returns a function with the index offsets of the remaining labels. The function depends on variables of the
// scope and on at most one other variable, which is eliminated.
func (c *checker) term(f *function, scope []int) term {
	created := term{table: f.table, scopeOffsets: make([][]int, len(scope))}
	stride := 1
	for position := len(f.scope) - 1; position >= 0; position-- {
		variable := f.scope[position]
		offsets := make([]int, len(c.remainingLabels[variable]))
		for i, label := range c.remainingLabels[variable] {
			offsets[i] = slices.Index(f.labels[position], label) * stride
		}
		if scopeIndex := slices.Index(scope, variable); scopeIndex >= 0 {
			created.scopeOffsets[scopeIndex] = offsets
			created.index += offsets[0] // forEachEntry begins with the first remaining label of each variable
		} else {
			created.eliminatedOffsets = offsets
		}
		stride *= len(f.labels[position])
	}
	return created
}

// checkSplit returns the least bound of the branches. There must be one branch for each remaining label.
func (c *checker) checkSplit(node *wcsp.Node, functionsOf functionsByVariable) (int64, error) {
	variable := node.Variable
	if _, remains := functionsOf[variable]; !remains {
		return 0, fmt.Errorf("the split is on variable %d, which was eliminated before", variable)
	}
	labels := c.remainingLabels[variable]
	defer func() { c.remainingLabels[variable] = labels }()
	if len(labels) < 2 || len(node.Branches) != len(labels) {
		return 0, fmt.Errorf("the split on variable %d has %d branches for %d labels", variable, len(node.Branches),
			len(labels))
	}
	least, hasBranch := wcsp.Forbidden, map[int]bool{}
	for i := range node.Branches {
		branch := &node.Branches[i]
		if hasBranch[branch.Label] || !slices.Contains(labels, branch.Label) {
			return 0, fmt.Errorf("the split on variable %d has a branch for label %d, which does not remain or occurs twice",
				variable, branch.Label)
		}
		hasBranch[branch.Label] = true
		c.remainingLabels[variable] = []int{branch.Label}
		branchFunctions := functionsByVariable{}
		for other, list := range functionsOf {
			c.countSteps(1 + len(list))
			branchFunctions[other] = slices.Clone(list)
		}
		bound, err := c.checkNode(&branch.Node, branchFunctions)
		if err != nil {
			return 0, fmt.Errorf("label %d of variable %d: %w", branch.Label, variable, err)
		}
		least = min(least, bound)
	}
	return least, nil
}

// checkParts returns the sum of the bounds of independent parts.
func (c *checker) checkParts(nodes []wcsp.Node, functionsOf functionsByVariable) (int64, error) {
	list := c.components(functionsOf)
	if len(list) != len(nodes) {
		return 0, fmt.Errorf("the proof has %d parts, but the remaining problem has %d", len(nodes), len(list))
	}
	var sum int64
	for i := range nodes {
		bound, err := c.checkNode(&nodes[i], list[i])
		if err != nil {
			return 0, fmt.Errorf("part %d: %w", i, err)
		}
		sum = add(sum, bound)
	}
	return sum, nil
}

// components divides the remaining problem into independent parts, ordered by their least variables.
func (c *checker) components(functionsOf functionsByVariable) []functionsByVariable {
	var list []functionsByVariable
	reached := map[int]bool{}
	for _, first := range slices.Sorted(maps.Keys(functionsOf)) {
		if reached[first] {
			continue
		}
		reached[first] = true
		part, pending := functionsByVariable{}, []int{first}
		for len(pending) > 0 {
			variable := pending[0]
			c.countSteps(1 + len(functionsOf[variable]))
			pending, part[variable] = pending[1:], functionsOf[variable]
			for _, functionIndex := range functionsOf[variable] {
				for _, other := range c.functions[functionIndex].scope {
					if !reached[other] {
						reached[other], pending = true, append(pending, other)
					}
				}
			}
		}
		list = append(list, part)
	}
	return list
}
