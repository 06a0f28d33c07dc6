#!/usr/bin/env Rscript
# Makes r.json: figures by R that tests/stat_golden.rs compares ours with, in the form that make.py describes.
#
#   apt-get install --no-install-recommends r-base-core
#   Rscript tests/golden/stat/make.R > tests/golden/stat/r.json
#   Rscript tests/golden/stat/make.R | diff - tests/golden/stat/r.json     # the check: at most the first line differs
#
# Only base R is used; the data are written out here.

json <- function(x) {
  if (is.null(x)) return("null")
  if (is.list(x)) return(paste0("{", paste(sprintf("\"%s\": %s", names(x), sapply(x, json)), collapse = ", "), "}"))
  if (is.character(x)) return(sprintf("\"%s\"", x))
  if (is.logical(x)) return(tolower(as.character(x)))
  # 15 digits: the last two of 17 differ between builds of R.
  text <- sprintf("%.15g", x)
  if (length(x) == 1 && is.null(attr(x, "list"))) text else paste0("[", paste(text, collapse = ", "), "]")
}
many <- function(x) structure(as.numeric(x), list = TRUE)
cases <- c()
case <- function(what, given, out) {
  cases <<- c(cases, sprintf("{\"what\": \"%s\", \"in\": %s, \"out\": %s}", what, json(given), json(out)))
}

times <- c(812345, 799801, 1203944, 805112, 798003, 801777, 830021, 799802, 2804111, 815500, 802010, 799000,
           807070, 811111, 809999, 803333, 822222, 798765, 801234, 804321, 808080)
later <- c(820001, 812345, 1190002, 815116, 805550, 803001, 839999, 801010, 2790007, 820202, 811011, 801000,
           811170, 819111, 808001, 809333, 842232, 797765, 811934, 814021, 810081)
pick <- c(0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)

for (n in c(6, 20, 21)) {
  x <- times[1:n]
  # An exact interval of the median, from R's own binomial quantile.
  k <- qbinom(0.025, n, 0.5)
  if (pbinom(k - 1, n, 0.5) > 0.025) k <- k - 1
  case("summary", list(x = many(x)),
       list(q = many(quantile(x, pick, type = 7)), mean = mean(x), stddev = sd(x), mad = mad(x, constant = 1),
            median_ci = many(sort(x)[c(k, n + 1 - k)])))
}

d <- log(later / times)
for (n in c(6, 12, 21)) {
  t <- wilcox.test(d[1:n], exact = TRUE)
  case("signed_rank", list(d = many(d[1:n])), list(w = unname(t$statistic), p = t$p.value, exact = TRUE))
  case("hodges_lehmann", list(d = many(d[1:n])),
       list(value = unname(wilcox.test(d[1:n], exact = TRUE, conf.int = TRUE)$estimate)))
}
long <- c(d, d * 1.01 - 0.002, -d * 0.7)
rounded <- round(long, 2)
for (x in list(long, rounded)) {
  t <- suppressWarnings(wilcox.test(x, exact = FALSE, correct = TRUE))
  case("signed_rank", list(d = many(x)), list(w = unname(t$statistic), p = t$p.value, exact = FALSE))
}
b <- binom.test(sum(rounded > 0), sum(rounded != 0))
case("sign_test", list(d = many(rounded)), list(p = b$p.value))

one <- c(1.1, 2.3, 0.4, 5.6, 3.3, 2.9, 4.4)
two <- c(2.2, 6.1, 3.4, 7.7, 5.05)
t <- wilcox.test(two, one, exact = TRUE)
case("rank_sum", list(a = many(one), b = many(two)), list(u = unname(t$statistic), p = t$p.value))
t <- suppressWarnings(wilcox.test(round(later, -4), round(times, -4), exact = FALSE, correct = TRUE))
case("rank_sum", list(a = many(round(times, -4)), b = many(round(later, -4))),
     list(u = unname(t$statistic), p = t$p.value))

p <- c(0.2, 0.01, 0.013, 0.9, 0.04)
case("holm", list(p = many(p)), list(adjusted = many(p.adjust(p, "holm"))))
case("autocorrelation", list(x = many(cumsum(d))), list(value = acf(cumsum(d), plot = FALSE)$acf[2]))

for (confidence in c(0.8, 0.9, 0.95, 0.98, 0.99, 0.995)) for (df in c(1, 5, 10, 28, 29, 30, 1000)) {
  case("student_quantile", list(confidence = confidence, df = df), list(value = qt((1 + confidence) / 2, df)))
}
iguana <- c(50, 200, 150, 400, 750, 400, 150)
chameleon <- c(150, 400, 720, 500, 930)
for (confidence in c(0.8, 0.95, 0.995)) {
  out <- list(difference = mean(chameleon) - mean(iguana))
  for (equal in c(TRUE, FALSE)) {
    t <- t.test(chameleon, iguana, var.equal = equal, conf.level = confidence)
    out[[if (equal) "pooled" else "welch"]] <-
      list(half_width = unname(diff(t$conf.int)) / 2, df = unname(t$parameter), p = t$p.value)
  }
  case("means", list(a = many(iguana), b = many(chameleon), confidence = confidence), out)
}

x <- rep(c(1, 2, 4, 8, 16), each = 4)
y <- c(3.1, 2.9, 3.4, 3.0, 5.2, 4.8, 5.1, 5.3, 9.3, 8.9, 9.0, 9.4, 17.2, 16.6, 17.3, 16.9, 35.0, 34.2, 34.4, 35.1)
fit <- lm(y ~ x)
lack <- anova(fit, lm(y ~ factor(x)))
half <- apply(confint(fit), 1, diff) / 2
case("line", list(x = many(x), y = many(y)),
     list(slope = unname(coef(fit)[2]), intercept = unname(coef(fit)[1]), slope_half_width = unname(half[2]),
          intercept_half_width = unname(half[1]), r_squared = summary(fit)$r.squared,
          lack = list(f = lack$F[2], p = lack$`Pr(>F)`[2])))

cat(sprintf("{\"made_by\": \"make.R with %s\", \"cases\": [\n%s\n]}\n", R.version.string, paste(cases, collapse = ",\n")))
