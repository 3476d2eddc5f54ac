"""Names and things that the item sources write about."""

NAMES = (
    "Mia", "Ben", "Ann", "Tom", "Lea", "Sam", "Ivy", "Max", "Zoe", "Leo",
    "Eva", "Jon", "Kim", "Dan", "Amy", "Raj", "Noa", "Tim", "Ada", "Lou",
)  # fmt: skip
THINGS = (
    "apples", "shells", "coins", "stamps", "pens", "cards", "stones", "books", "beads", "plums",
    "marbles", "cups", "keys", "nuts", "seeds", "clips", "bricks", "candles", "tickets", "eggs",
)  # fmt: skip
BOXES = ("boxes", "bags", "crates", "jars", "baskets", "packs")
GOODS = ("lamp", "kettle", "chair", "coat", "clock", "radio", "mirror", "tent", "drum", "scarf")
SHOPS = ("shop", "market", "store", "stall")
PLACES = ("park", "harbour", "school", "garden", "library", "station", "museum", "farm")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
