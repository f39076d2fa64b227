package pointwise

import (
	"fmt"
	"math"
	"strings"

	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// LogNdtr is torch.special.log_ndtr, and Ndtri is torch.special.ndtri. The constants of LogNdtr are log(2*pi)/2 and
// sqrt(1/2). Below -30, LogNdtr is an asymptotic series. Neither op supports complex numbers, so the complex references
// are nil.
var (
	LogNdtr = formulaOp("special_log_ndtr", "log_ndtr_cpu",
		"Returns the logarithm of the probability that a standard normal number is less than the element.",
		"v = float64(x); z = 1 / (v * v); "+
			"tail = log1p(-z * (1 - z * (3 - z * (15 - z * (105 - 945 * z))))) - 0.5 * v * v - log(-v) - 0.9189385332046727; "+
			halvesOfRootTwo+
			"type_as(where(v < -30, tail, where(v < 0, log(0.5 * erfc(-t)), log1p(-0.5 * erfc(t) * (1 - 2 * t * r)))), x)",
		unaryFloat, logNdtr, nil, kit.UnaryExample, kit.Example(nil, kit.IntMatrix))
	Ndtri = formulaOp("special_ndtri", "ndtri_cpu",
		"Returns the inverse of the cumulative distribution function of the standard normal distribution; NaN outside "+
			"[0, 1].",
		ndtriText(), unaryFloat, ndtri, nil, kit.UnaryExample, kit.Example(nil, kit.IntMatrix))
)

// ndtriText returns the formula of ndtri. It uses the rational approximations of Cephes: one for probabilities from
// exp(-2) to 1-exp(-2), and two in z = 1/sqrt(-2 log p) for the tails. The constants are 1-exp(-2), sqrt(2*pi) and
// exp(-2).
func ndtriText() string {
	// quotient returns the formula of the rational approximation with the given index: a quotient of two polynomials of
	// the variable.
	quotient := func(variable string, index int) string {
		numerator := polynomial(variable, ndtriNumerators[index])
		return fmt.Sprintf("(%s) / (%s)", numerator, polynomial(variable, ndtriDenominators[index]))
	}
	return "p = float64(x); above = p > 0.8646647167633873; q = where(above, 1 - p, p); c = q - 0.5; c2 = c * c; " +
		"center = 2.5066282746310002 * (c + c * (c2 * (" + quotient("c2", 0) + "))); " +
		"t = sqrt(-2 * log(q)); z = 1 / t; " +
		"tail = t - log(t) / t - z * where(t < 8, " + quotient("z", 1) + ", " + quotient("z", 2) + "); " +
		"r = where(q > 0.1353352832366127, center, where(above, tail, -tail)); " +
		"type_as(where(p == 0, -inf, where(p == 1, inf, where(p < 0 or p > 1, nan, r))), x)"
}

// polynomial returns the expression of a polynomial of a variable. The coefficients are in descending order of
// degree.
func polynomial(variable string, coefficients []float64) string {
	text := fmt.Sprintf("%.17g", coefficients[0])
	for _, coefficient := range coefficients[1:] {
		text = fmt.Sprintf("(%s) * %s + %.17g", text, variable, coefficient)
	}
	return strings.ReplaceAll(text, "+ -", "- ")
}

// ndtri is the reference function. It finds the number by bisection. (math.Log is wrong for subnormal numbers on some
// processors: see logWithSubnormals.)
func ndtri(p float64) float64 {
	switch {
	case !(p >= 0 && p <= 1):
		return math.NaN()
	case p > 0.5:
		return -ndtri(1 - p)
	case p == 0.5:
		return 0
	case p == 0:
		return math.Inf(-1)
	}
	low, high := -40.0, 0.0
	for range 100 {
		if middle := (low + high) / 2; logNdtr(middle) < logWithSubnormals(p) {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// logNdtr is the reference function of log_ndtr. At -20 and below, it sums the asymptotic series.
func logNdtr(x float64) float64 {
	switch {
	case x > -1:
		return math.Log1p(-math.Erfc(x*math.Sqrt2/2) / 2)
	case x > -20:
		return math.Log(math.Erfc(-x*math.Sqrt2/2) / 2)
	}
	sum, term, z := 1.0, 1.0, 1/(x*x)
	for k := range 12 {
		term = float64(term * -float64(2*k+1) * z)
		sum += term
	}
	return math.Log(sum) - float64(x*x/2) - math.Log(-x) - float64(math.Log(2*math.Pi)/2)
}

// The coefficients are from Cephes.
var (
	ndtriNumerators = [3][]float64{{
		-5.99633501014107895267e1, 9.80010754185999661536e1, -5.66762857469070293439e1, 1.39312609387279679503e1,
		-1.23916583867381258016e0,
	}, {
		4.05544892305962419923e0, 3.15251094599893866154e1, 5.71628192246421288162e1, 4.40805073893200834700e1,
		1.46849561928858024014e1, 2.18663306850790267539e0, -1.40256079171354495875e-1, -3.50424626827848203418e-2,
		-8.57456785154685413611e-4,
	}, {
		3.23774891776946035970e0, 6.91522889068984211695e0, 3.93881025292474443415e0, 1.33303460815807542389e0,
		2.01485389549179081538e-1, 1.23716634817820021358e-2, 3.01581553508235416007e-4, 2.65806974686737550832e-6,
		6.23974539184983293730e-9,
	}}
	ndtriDenominators = [3][]float64{{
		1, 1.95448858338141759834e0, 4.67627912898881538453e0, 8.63602421390890590575e1, -2.25462687854119370527e2,
		2.00260212380060660359e2, -8.20372256168333339912e1, 1.59056225126211695515e1, -1.18331621121330003142e0,
	}, {
		1, 1.57799883256466749731e1, 4.53907635128879210584e1, 4.13172038254672030440e1, 1.50425385692907503408e1,
		2.50464946208309415979e0, -1.42182922854787788574e-1, -3.80806407691578277194e-2, -9.33259480895457427372e-4,
	}, {
		1, 6.02427039364742014255e0, 3.67983563856160859403e0, 1.37702099489081330271e0, 2.16236993594496635890e-1,
		1.34204006088543189037e-2, 3.28014464682127739104e-4, 2.89247864745380683936e-6, 6.79019408009981274425e-9,
	}}
)
