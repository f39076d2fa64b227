package suggest

import (
	"slices"
	"strings"
)

// Op suggests an op for a name that is not in a catalogue. known reports whether the catalogue has an op of the given
// name. The name may be another spelling ("aten::relu_"), the name in another library ("BatchNormalization") or a
// misspelling ("rlu"). Op returns an empty name if no op is similar.
func Op(name string, known func(name string) bool) string {
	bareName := stripLibrary(name)
	alias := OpAliases[withoutUnderscores(bareName)]
	for _, guess := range []string{bareName, snakeCase(bareName), strings.TrimSuffix(bareName, "_"), alias} {
		if guess != "" && guess != name && known(guess) {
			return guess
		}
	}
	knownNames := func(yield func(string) bool) {
		for _, candidate := range opNames {
			if known(candidate) && !yield(candidate) {
				return
			}
		}
	}
	for candidate := range knownNames {
		if withoutUnderscores(candidate) == withoutUnderscores(bareName) {
			return candidate
		}
	}
	return Nearest(bareName, knownNames)
}

// opNames are the names of the ops of package kernels; opnames_gen.go sets them. Op compares a misspelled name with the
// names that are also in the catalogue.
var opNames []string

// stripLibrary removes the library and the overload from the name of an op. It returns "relu" for "aten::relu.out" and
// for "torch.nn.functional.relu".
func stripLibrary(name string) string {
	if i := strings.LastIndex(name, "::"); i >= 0 {
		name, _, _ = strings.Cut(name[i+2:], ".")
		return name
	}
	parts := strings.Split(name, ".")
	libraries := []string{"torch", "nn", "functional", "F", "np", "numpy", "tf", "jnp", "jax", "aten", "ops", "math",
		"tensor", "Tensor", "special", "keras", "layers", "onnx", "ai", "com", "microsoft"}
	for len(parts) > 1 && slices.Contains(libraries, parts[0]) {
		parts = parts[1:]
	}
	return parts[0]
}

// snakeCase converts "BatchNorm" to "batch_norm". Digits belong to the word before them.
func snakeCase(name string) string {
	var snake strings.Builder
	for i := range len(name) {
		letter := name[i]
		isUpper := letter >= 'A' && letter <= 'Z'
		startsWord := i > 0 && !(name[i-1] >= 'A' && name[i-1] <= 'Z') && name[i-1] != '_'
		if isUpper && startsWord {
			snake.WriteByte('_')
		}
		if isUpper {
			letter += 'a' - 'A'
		}
		snake.WriteByte(letter)
	}
	return snake.String()
}

// withoutUnderscores returns a form that all spellings of a name share: in lower case and without underscores.
func withoutUnderscores(name string) string {
	return strings.ToLower(strings.ReplaceAll(name, "_", ""))
}
