package graph

// DefaultValue returns the default of an attribute as a graph file would have it: a number,
// a string, a list; infinities and NaN as strings. It returns false for an attribute that
// must be given and for one whose default is to be left out.
func (f Field) DefaultValue() (any, bool) {
	if f.Required || f.Default == "none" {
		return nil, false
	}
	return jsonValue(f.defaultValue()), true
}
