package pointwise

import (
	"fmt"
	"math"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// Values of isScaled.
const unscaled, scaled = false, true

// Modified Bessel functions of the first kind. The suffix e stands for a factor of exp(-|x|). As in PyTorch, I0 and I1
// of infinities are NaN.
var (
	I0  = besselFirst("i0", "i0", 0, unscaled)
	I0e = besselFirst("special_i0e", "i0e", 0, scaled)
	I1  = besselFirst("special_i1", "i1", 1, unscaled)
	I1e = besselFirst("special_i1e", "i1e", 1, scaled)
)

// besselFirst defines a modified Bessel function of the first kind. isScaled is set for a factor of exp(-|x|). kernel
// is PyTorch's name of the kernel, for errors.
func besselFirst(name, kernel string, order int, isScaled bool) *graph.Op {
	doc := fmt.Sprintf("Returns the modified Bessel function of the first kind and order %d of each element", order)
	if isScaled {
		doc += ", multiplied by exp(-|x|)"
	}
	return formulaOp(name, kernel, doc+".", besselFirstText(order, isScaled), unaryFloat, func(x float64) float64 {
		return besselFirstReference(order, isScaled, x)
	}, nil /* no complex numbers */, kit.UnaryExample, kit.Example(nil, kit.IntMatrix))
}

// besselFirstText returns the formula of a Bessel function of the first kind: a Chebyshev series in |x| for |x| up to 8
// (small), and a Chebyshev series in 1/|x| above 8 (large).
func besselFirstText(order int, isScaled bool) string {
	ifSmall, ifLarge := "small", "large / sqrt(a)"
	if order == 1 {
		ifSmall = "small * a"
	}
	if !isScaled {
		ifSmall, ifLarge = "exp(a) * "+ifSmall, "exp(a) * "+ifLarge
	}
	text := "v = float64(x); a = abs(v); " + chebyshevSeries("small", "a * 0.5 - 2", firstKindSmall[order]) +
		chebyshevSeries("large", "32 / a - 2", firstKindLarge[order]) +
		"r = where(a <= 8, " + ifSmall + ", " + ifLarge + "); "
	if order == 1 {
		return text + "type_as(where(v < 0, -r, r), x)"
	}
	return text + "type_as(r, x)"
}

// besselFirstReference is the reference function. For x > 0 and order n it sums the power series, or above 30 the
// asymptotic series (DLMF 10.25.2 and 10.40.1):
//
//	(x/2)^n * sum over k of (x^2/4)^k / (k! * (k+n)!)
//	exp(x) / sqrt(2*pi*x) * sum over k of (1^2-mu) * (3^2-mu) * ... * ((2k-1)^2-mu) / (k! * (8x)^k), where mu is 4*n^2
func besselFirstReference(order int, isScaled bool, x float64) float64 {
	magnitude, sign := math.Abs(x), 1.0
	if order == 1 && x < 0 {
		sign = -1
	}
	if math.IsInf(magnitude, 0) {
		if isScaled {
			return 0 * sign
		}
		return math.NaN()
	}
	if magnitude > 30 {
		sum := besselFirstAsymptotic(order, magnitude)
		if isScaled {
			return sign * sum
		}
		return sign * math.Exp(magnitude) * sum
	}
	term := 1.0
	if order == 1 {
		term = magnitude / 2
	}
	sum := term
	for k := 1; k < 100; k++ {
		term = float64(term * (magnitude / 2 * magnitude / 2 / float64(k*(k+order))))
		sum += term
	}
	if isScaled {
		sum *= math.Exp(-magnitude)
	}
	return sign * sum
}

// besselFirstAsymptotic returns the asymptotic series of [besselFirstReference], without the factor exp(x).
func besselFirstAsymptotic(order int, x float64) float64 {
	term, sum, mu := 1.0, 1.0, float64(4*order*order)
	for k := 1; k < 20; k++ {
		odd := float64(2*k - 1)
		term = float64(term * (float64(odd*odd) - mu) / (float64(k) * 8 * x))
		sum += term
	}
	sum /= math.Sqrt(2*math.Pi) * math.Sqrt(x) // 2π times x can be infinite
	return sum
}

// Modified Bessel functions of the second kind. Scaled functions have a factor of exp(x).
var (
	BesselK0       = besselSecond("special_modified_bessel_k0", 0, unscaled)
	BesselK1       = besselSecond("special_modified_bessel_k1", 1, unscaled)
	ScaledBesselK0 = besselSecond("special_scaled_modified_bessel_k0", 0, scaled)
	ScaledBesselK1 = besselSecond("special_scaled_modified_bessel_k1", 1, scaled)
)

// besselSecond defines a modified Bessel function of the second kind. isScaled is set for a factor of exp(x).
func besselSecond(name string, order int, isScaled bool) *graph.Op {
	doc := fmt.Sprintf("Returns the modified Bessel function of the second kind and order %d of each element", order)
	if isScaled {
		doc += ", multiplied by exp(x)"
	}
	return formulaOp(name, strings.TrimPrefix(name, "special_")+"_cpu", doc+"; infinity at 0, NaN below 0.",
		besselSecondText(order, isScaled), unaryFloat, func(x float64) float64 {
			return besselSecondReference(order, isScaled, x)
		}, nil /* no complex numbers */, kit.UnaryExample, kit.Example(nil, kit.IntMatrix))
}

// besselSecondText returns the formula of a Bessel function of the second kind: for x up to 2 (small), a Chebyshev
// series in x^2 and the function of the first kind (exp(v) * first), multiplied by log(x/2); above (large), a Chebyshev
// series in 1/x.
func besselSecondText(order int, isScaled bool) string {
	ifSmall, ifLarge := "small - logarithm * exp(v) * first", "large / sqrt(v)"
	if order == 1 {
		ifSmall = "small / v + logarithm * exp(v) * first * v"
	}
	if isScaled {
		ifSmall = "exp(v) * (" + ifSmall + ")"
	} else {
		ifLarge = "exp(-v) * " + ifLarge
	}
	return "v = float64(x); logarithm = log(v) - 0.69314718055994530942; " + // log(v/2); v/2 would be 0 for the least v
		chebyshevSeries("small", "v * v - 2", secondKindSmall[order]) +
		chebyshevSeries("first", "v * 0.5 - 2", firstKindSmall[order]) +
		chebyshevSeries("large", "8 / v - 2", secondKindLarge[order]) +
		"type_as(where(v == 0, inf, where(v < 0, nan, where(v <= 2, " + ifSmall + ", " + ifLarge + "))), x)"
}

// besselSecondReference is the reference function. For order n and x above 30 it sums the asymptotic series (DLMF
// 10.40.2). Otherwise it integrates exp(-x*cosh(t)) * cosh(n*t) over t > 0 (DLMF 10.32.9) by the trapezoidal rule,
// whose error decreases exponentially with the number of steps. Below 1e-8 it takes the first term of the power series,
// because the other terms are less than a rounding.
func besselSecondReference(order int, isScaled bool, x float64) float64 {
	switch {
	case x == 0:
		return math.Inf(1)
	case !(x > 0):
		return math.NaN()
	case x < 1e-8 && order == 1:
		return 1 / x
	case x < 1e-8:
		const eulerGamma = 0.57721566490153286061
		return math.Ln2 - eulerGamma - logWithSubnormals(x)
	}
	scaledResult := 0.0
	if x > 30 {
		scaledResult = besselSecondAsymptotic(order, x)
	} else {
		scaledResult = besselSecondIntegral(order, x)
	}
	if isScaled {
		return scaledResult
	}
	return math.Exp(-x) * scaledResult
}

// besselSecondAsymptotic returns the asymptotic series of [besselSecondReference], multiplied by exp(x).
func besselSecondAsymptotic(order int, x float64) float64 {
	term, sum, mu := 1.0, 0.0, float64(4*order*order)
	for k := 1; k <= 20; k++ {
		sum += term
		odd := float64(2*k - 1)
		term = float64(term * (mu - float64(odd*odd)) / (float64(k) * 8 * x))
	}
	return sum * (math.Sqrt(math.Pi/2) / math.Sqrt(x))
}

// besselSecondIntegral returns the integral of [besselSecondReference], multiplied by exp(x).
func besselSecondIntegral(order int, x float64) float64 {
	const step = 1.0 / 8
	sum := step / 2
	for t := step; t < 30; t += step {
		half := math.Sinh(t / 2) // 2*sinh(t/2)^2 is cosh(t)-1
		sum += float64(step * math.Exp(-2*x*half*half) * math.Cosh(float64(order)*t))
	}
	return sum
}

// chebyshevSeries returns statements that set the variable name to the sum of a Chebyshev series. twiceArgument is an
// expression. The coefficients are in descending order of degree. For example, for the name s, the argument "2 * v" and
// the coefficients 3 and 5 (with line breaks):
//
//	st = 2 * v;
//	sb0 = st * 0 - 0 + 3;
//	sb1 = st * sb0 - 0 + 5;
//	s = 0.5 * (sb1 - 0);
func chebyshevSeries(name, twiceArgument string, coefficients []float64) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%st = %s; ", name, twiceArgument)
	recent := [3]string{"0", "0", "0"} // the last three values of Clenshaw's recurrence, the newest first
	for i, coefficient := range coefficients {
		next := fmt.Sprintf("%sb%d", name, i)
		fmt.Fprintf(&text, "%s = %st * %s - %s + %g; ", next, name, recent[0], recent[1], coefficient)
		recent = [3]string{next, recent[0], recent[1]}
	}
	fmt.Fprintf(&text, "%s = 0.5 * (%s - %s); ", name, recent[0], recent[2])
	return text.String()
}

// The coefficients of the Chebyshev series for small and for large arguments, by order of the function, from Cephes.
var (
	firstKindSmall = [2][]float64{{
		-4.41534164647933937950e-18, 3.33079451882223809783e-17, -2.43127984654795469359e-16, 1.71539128555513303061e-15,
		-1.16853328779934516808e-14, 7.67618549860493561688e-14, -4.85644678311192946090e-13, 2.95505266312963983461e-12,
		-1.72682629144155570723e-11, 9.67580903537323691224e-11, -5.18979560163526290666e-10, 2.65982372468238665035e-9,
		-1.30002500998624804212e-8, 6.04699502254191894932e-8, -2.67079385394061173391e-7, 1.11738753912010371815e-6,
		-4.41673835845875056359e-6, 1.64484480707288970893e-5, -5.75419501008210370398e-5, 1.88502885095841655729e-4,
		-5.76375574538582365885e-4, 1.63947561694133579842e-3, -4.32430999505057594430e-3, 1.05464603945949983183e-2,
		-2.37374148058994688156e-2, 4.93052842396707084878e-2, -9.49010970480476444210e-2, 1.71620901522208775349e-1,
		-3.04682672343198398683e-1, 6.76795274409476084995e-1,
	}, {
		2.77791411276104639959e-18, -2.11142121435816608115e-17, 1.55363195773620046921e-16, -1.10559694773538630805e-15,
		7.60068429473540693410e-15, -5.04218550472791168711e-14, 3.22379336594557470981e-13, -1.98397439776494371520e-12,
		1.17361862988909016308e-11, -6.66348972350202774223e-11, 3.62559028155211703701e-10, -1.88724975172282928790e-9,
		9.38153738649577178388e-9, -4.44505912879632808065e-8, 2.00329475355213526229e-7, -8.56872026469545474066e-7,
		3.47025130813767847674e-6, -1.32731636560394358279e-5, 4.78156510755005422638e-5, -1.61760815825896745588e-4,
		5.12285956168575772895e-4, -1.51357245063125314899e-3, 4.15642294431288815669e-3, -1.05640848946261981558e-2,
		2.47264490306265168283e-2, -5.29459812080949914269e-2, 1.02643658689847095384e-1, -1.76416518357834055153e-1,
		2.52587186443633654823e-1,
	}}
	firstKindLarge = [2][]float64{{
		-7.23318048787475395456e-18, -4.83050448594418207126e-18, 4.46562142029675999901e-17, 3.46122286769746109310e-17,
		-2.82762398051658348494e-16, -3.42548561967721913462e-16, 1.77256013305652638360e-15, 3.81168066935262242075e-15,
		-9.55484669882830764870e-15, -4.15056934728722208663e-14, 1.54008621752140982691e-14, 3.85277838274214270114e-13,
		7.18012445138366623367e-13, -1.79417853150680611778e-12, -1.32158118404477131188e-11, -3.14991652796324136454e-11,
		1.18891471078464383424e-11, 4.94060238822496958910e-10, 3.39623202570838634515e-9, 2.26666899049817806459e-8,
		2.04891858946906374183e-7, 2.89137052083475648297e-6, 6.88975834691682398426e-5, 3.36911647825569408990e-3,
		8.04490411014108831608e-1,
	}, {
		7.51729631084210481353e-18, 4.41434832307170791151e-18, -4.65030536848935832153e-17, -3.20952592199342395980e-17,
		2.96262899764595013876e-16, 3.30820231092092828324e-16, -1.88035477551078244854e-15, -3.81440307243700780478e-15,
		1.04202769841288027642e-14, 4.27244001671195135429e-14, -2.10154184277266431302e-14, -4.08355111109219731823e-13,
		-7.19855177624590851209e-13, 2.03562854414708950722e-12, 1.41258074366137813316e-11, 3.25260358301548823856e-11,
		-1.89749581235054123450e-11, -5.58974346219658380687e-10, -3.83538038596423702205e-9, -2.63146884688951950684e-8,
		-2.51223623787020892529e-7, -3.88256480887769039346e-6, -1.10588938762623716291e-4, -9.76109749136146840777e-3,
		7.78576235018280120474e-1,
	}}
	secondKindSmall = [2][]float64{{
		1.37446543561352307156e-16, 4.25981614279661018399e-14, 1.03496952576338420167e-11, 1.90451637722020886025e-9,
		2.53479107902614945675e-7, 2.28621210311945178607e-5, 1.26461541144692592338e-3, 3.59799365153615016266e-2,
		3.44289899924628486886e-1, -5.35327393233902768720e-1,
	}, {
		-7.02386347938628759343e-18, -2.42744985051936593393e-15, -6.66690169419932900609e-13,
		-1.41148839263352776110e-10, -2.21338763073472585583e-8, -2.43340614156596823496e-6, -1.73028895751305206302e-4,
		-6.97572385963986435018e-3, -1.22611180822657148235e-1, -3.53155960776544875667e-1, 1.52530022733894777053,
	}}
	secondKindLarge = [2][]float64{{
		5.30043377268626276149e-18, -1.64758043015242134646e-17, 5.21039150503902756861e-17, -1.67823109680541210385e-16,
		5.51205597852431940784e-16, -1.84859337734377901440e-15, 6.34007647740507060557e-15, -2.22751332699166985548e-14,
		8.03289077536357521100e-14, -2.98009692317273043925e-13, 1.14034058820847496303e-12, -4.51459788337394416547e-12,
		1.85594911495471785253e-11, -7.95748924447710747776e-11, 3.57739728140030116597e-10, -1.69753450938905987466e-9,
		8.57403401741422608519e-9, -4.66048989768794782956e-8, 2.76681363944501510342e-7, -1.83175552271911948767e-6,
		1.39498137188764993662e-5, -1.28495495816278026384e-4, 1.56988388573005337491e-3, -3.14481013119645005427e-2,
		2.44030308206595545468,
	}, {
		-5.75674448366501715755e-18, 1.79405087314755922667e-17, -5.68946255844285935196e-17, 1.83809354436663880070e-16,
		-6.05704724837331885336e-16, 2.03870316562433424052e-15, -7.01983709041831346144e-15, 2.47715442448130437068e-14,
		-8.97670518232499435011e-14, 3.34841966607842919884e-13, -1.28917396095102890680e-12, 5.13963967348173025100e-12,
		-2.12996783842756842877e-11, 9.21831518760500529508e-11, -4.19035475934189648750e-10, 2.01504975519703286596e-9,
		-1.03457624656780970260e-8, 5.74108412545004946722e-8, -3.50196060308781257119e-7, 2.40648494783721712015e-6,
		-1.93619797416608296024e-5, 1.95215518471351631108e-4, -2.85781685962277938680e-3, 1.03923736576817238437e-1,
		2.72062619048444266945,
	}}
)
